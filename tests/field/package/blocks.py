from .ops.sizes import next_power_of_2

WIDEST = next_power_of_2(4096)
