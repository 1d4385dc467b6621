from .ahead import members_of, write
from .targets import SET, replace_inputs


class Inputs:
    def __init__(self, inputs):
        self.inputs = inputs

    def __getattr__(self, name):
        return getattr(self.inputs, name)


setattr(Inputs, SET.name, lambda self, number: members_of(self.inputs)[SET.name](number))
Inputs.__module__ = "types"


def run(x, weight, eps, out):
    replace_inputs(Inputs)
    write(x, weight, eps, out)
