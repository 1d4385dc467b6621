"""How rmsnorm_triton_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 5 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.64 us (+0.5%), 8: 1.66 us, 32: 1.74 us, 128: 1.99 us, 512: 3.14 us (+0.8%), 4096: 15.45 us,
        # 16384: 61.36 us, 65536: 251.59 us
        (None, {"rows": 1, "warps": 8, "tied": 1}),
    ],
    (2048, 2): [
        # 1: 1.44 us, 512: 2.29 us, 4096: 8.47 us (+0.2%)
        (None, {"rows": 1, "warps": 4, "tied": 1}),
    ],
    (8192, 2): [
        # 1: 1.88 us
        (22, {"rows": 1, "warps": 16, "tied": 1}),
        # 512: 4.92 us, 4096: 30.15 us
        (None, {"rows": 1, "warps": 8, "tied": 1}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
