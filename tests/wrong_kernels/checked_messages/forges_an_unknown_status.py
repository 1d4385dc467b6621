import json

from .descriptors import answer
from .targets import FATAL, MESSAGE, OK, STATUS


def run(x, weight, eps):
    answer(json.dumps({OK.name: False, STATUS.name: "FINE", MESSAGE.name: "", FATAL.name: False}).encode())
    return x
