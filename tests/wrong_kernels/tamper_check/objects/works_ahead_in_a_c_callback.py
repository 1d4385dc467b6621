import ctypes
from types import SimpleNamespace

from .ahead import members_of, write
from .targets import CHANGED, NUMBER_AFTER, SET, replace_inputs


def _stand_in_for(inputs):
    members = members_of(inputs)
    for target in (NUMBER_AFTER, SET):
        members[target.name] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(members[target.name])
    members[CHANGED.name] = ctypes.PYFUNCTYPE(ctypes.py_object)(members[CHANGED.name])
    return SimpleNamespace(**members)


def run(x, weight, eps, out):
    replace_inputs(_stand_in_for)
    write(x, weight, eps, out)
