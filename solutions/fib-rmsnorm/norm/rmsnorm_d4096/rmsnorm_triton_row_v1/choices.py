"""How rmsnorm_triton_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 5 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.46 us, 8: 1.60 us, 32: 1.68 us, 128: 1.92 us, 512: 3.12 us (+0.7%), 4096: 15.38 us,
        # 16384: 61.70 us, 65536: 250.56 us
        (None, {"rows": 1, "warps": 8, "tied": 0}),
    ],
    (8192, 2): [
        # 1: 1.89 us, 32: 2.01 us, 512: 4.79 us, 4096: 30.02 us, 65536: 509.16 us
        (None, {"rows": 1, "warps": 8, "tied": 1}),
    ],
    (2048, 2): [
        # 1: 1.33 us (+0.7%), 32: 1.53 us, 512: 2.17 us, 4096: 8.39 us, 65536: 123.58 us
        (None, {"rows": 1, "warps": 4, "tied": 0}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
