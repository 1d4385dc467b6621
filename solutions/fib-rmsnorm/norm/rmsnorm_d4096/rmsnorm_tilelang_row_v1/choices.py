"""How rmsnorm_tilelang_row_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 3 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.45 us, 8: 1.57 us, 32: 1.64 us, 128: 1.88 us, 512: 3.11 us, 4096: 15.32 us, 16384: 61.64 us,
        # 65536: 250.82 us
        (None, {"rows": 1, "warps": 8}),
    ],
    (2048, 2): [
        # 1: 1.31 us, 32: 1.52 us (+0.9%), 512: 2.21 us
        (1448, {"rows": 1, "warps": 8}),
        # 4096: 8.41 us, 65536: 123.19 us
        (None, {"rows": 1, "warps": 4}),
    ],
    (8192, 2): [
        # 1: 1.83 us
        (5, {"rows": 1, "warps": 16}),
        # 32: 1.97 us, 512: 5.03 us, 4096: 30.65 us, 65536: 509.41 us
        (None, {"rows": 1, "warps": 8}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
