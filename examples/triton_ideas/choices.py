"""How rmsnorm_triton_ideas_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.

Nothing was measured.
"""

MULTIPROCESSORS = 0  # of the device it was measured on

# (hidden, itemsize): (the largest batch, its choice), ...
CHOICES = {}


def find_choice(batch, hidden, itemsize):
    """The choice for a shape, or None for one that was never measured."""
    for largest, choice in CHOICES.get((hidden, itemsize), ()):
        if largest is None or batch <= largest:
            return choice
    return None
