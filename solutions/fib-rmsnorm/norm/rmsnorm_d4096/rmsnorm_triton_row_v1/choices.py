"""How rmsnorm_triton_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-22, timer cupti, 7 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (8192, 2): [
        # 1: 1.86 us, 32: 2.02 us (+0.4%)
        (128, {"rows": 1, "warps": 8, "tied": 2}),
        # 512: 4.77 us, 4096: 30.30 us
        (None, {"rows": 1, "warps": 8, "tied": 1}),
    ],
    (4096, 2): [
        # 1: 1.47 us, 8: 1.62 us, 32: 1.67 us, 128: 1.93 us
        (256, {"rows": 1, "warps": 8, "tied": 0}),
        # 512: 3.09 us, 4096: 15.38 us, 65536: 248.88 us
        (None, {"rows": 1, "warps": 8, "tied": 2}),
    ],
    (2048, 2): [
        # 1: 1.32 us, 32: 1.53 us (+0.2%), 512: 2.17 us, 4096: 8.37 us, 65536: 123.34 us (+0.4%)
        (None, {"rows": 1, "warps": 4, "tied": 0}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
