"""How rmsnorm_triton_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 9 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.74 us, 8: 1.69 us, 32: 1.75 us, 128: 2.01 us, 512: 3.25 us (+0.5%)
        (1448, {"rows": 1, "warps": 8}),
        # 4096: 15.62 us, 16384: 61.97 us (+0.3%), 65536: 250.83 us (+0.4%)
        (None, {"rows": 1, "warps": 4}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
