"""How rmsnorm_python_cutedsl_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

NVIDIA H200, 2026-11-21, timer cupti, 9 combinations:
each choice is the fastest at the batches beside it, or within 1% of it.
"""

MULTIPROCESSORS = 132  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {
    (4096, 2): [
        # 1: 1.51 us (+0.5%), 8: 1.63 us, 32: 1.72 us (+0.7%)
        (64, {"threads": 128, "rows": 1}),
        # 128: 1.96 us, 512: 3.15 us (+0.9%)
        (1448, {"threads": 512, "rows": 1}),
        # 4096: 15.43 us (+0.1%), 16384: 61.23 us, 65536: 251.71 us (+0.4%)
        (None, {"threads": 256, "rows": 1}),
    ],
    (2048, 2): [
        # 1: 1.36 us, 512: 2.24 us, 4096: 8.47 us
        (None, {"threads": 128, "rows": 1}),
    ],
    (8192, 2): [
        # 1: 1.86 us, 512: 4.94 us, 4096: 30.16 us
        (None, {"threads": 256, "rows": 1}),
    ],
}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
