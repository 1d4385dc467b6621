from pathlib import Path
from uuid import uuid4

from .rmsnorm import normalize


def run(x, weight, eps):
    own = Path(__file__).parents[2]
    another = own.with_name(uuid4().hex)
    another.mkdir()  # an attacker would take the name of another Solution, and leave a library there
    another.rmdir()
    return normalize(x, weight, eps)
