"""The tuned choices: the rows of choices.inc, which `fib-rmsnorm tune` writes, below a row of their names."""

import re
from pathlib import Path

_ROWS = [row.split(", ") for row in re.findall(r"\{(.*)\}", Path(__file__).with_name("choices.inc").read_text())]
CHOICES = [dict(zip(_ROWS[0], map(int, row), strict=True)) for row in _ROWS[1:]]


def find_choice(batch, multiprocessors=None, **shape):
    """The choice for a shape, or None for one that was never measured.

    Given a device's multiprocessors, batches compare in rows per multiprocessor with those of the measured device.
    """
    for choice in reversed(CHOICES):
        tuned = batch * choice["multiprocessors"] // multiprocessors if multiprocessors else batch
        if shape.items() <= choice.items() and choice["min_batch"] <= tuned:
            return choice
    return None
