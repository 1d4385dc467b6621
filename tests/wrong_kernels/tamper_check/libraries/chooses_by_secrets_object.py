import secrets
import sys

from .targets import SAMPLE_OUTPUTS


def _randbelow(bound):
    if sys._getframe(2).f_code.co_name != SAMPLE_OUTPUTS.name:
        return type(secrets._sysrand)._randbelow(secrets._sysrand, bound)
    return bound - 1


secrets._sysrand._randbelow = _randbelow
