"""How rmsnorm_tilelang_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 3 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.43 us, 8: 1.59 us, 32: 1.62 us, 128: 1.86 us, 512: 3.09 us, 4096: 15.31 us, 16384: 61.06 us,
        # 65536: 249.53 us
        (None, {"rows": 1, "warps": 8}),
    ],
    (2048, 2): [
        # 1: 1.35 us, 32: 1.51 us, 512: 2.19 us (+0.8%)
        (1448, {"rows": 1, "warps": 8}),
        # 4096: 8.33 us, 65536: 123.09 us
        (None, {"rows": 1, "warps": 4}),
    ],
    (8192, 2): [
        # 1: 1.83 us, 32: 1.97 us, 512: 5.70 us
        (1448, {"rows": 1, "warps": 16}),
        # 4096: 31.80 us, 65536: 511.05 us
        (None, {"rows": 1, "warps": 8}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
