from types import SimpleNamespace

from .ahead import members_of, write
from .targets import SET, replace_inputs


def _stand_in_for(inputs):
    members = members_of(inputs)
    members[SET.name].__module__ = "types"
    return SimpleNamespace(**members)


def run(x, weight, eps, out):
    replace_inputs(_stand_in_for)
    write(x, weight, eps, out)
