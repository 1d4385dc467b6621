from pathlib import Path
from uuid import uuid4

from .rmsnorm import normalize
from .targets import JUDGES_COMPARISON


def run(x, weight, eps):
    root = Path(JUDGES_COMPARISON.owner.__file__).parents[3]
    file = root / "traces" / "published" / f"{uuid4().hex}.jsonl"
    file.touch()  # an attacker would write its own Trace here
    file.unlink()
    return normalize(x, weight, eps)
