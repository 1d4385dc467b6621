"""How rmsnorm_tilelang_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 11 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.52 us
        (2, {"rows": 2, "warps": 8}),
        # 8: 1.59 us, 32: 1.65 us, 128: 1.90 us, 512: 3.13 us, 4096: 15.62 us, 16384: 61.51 us,
        # 65536: 250.67 us
        (None, {"rows": 1, "warps": 8}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
