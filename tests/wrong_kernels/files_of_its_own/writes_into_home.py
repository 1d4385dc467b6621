import os
import pwd
from pathlib import Path
from uuid import uuid4

from .rmsnorm import normalize


def run(x, weight, eps):
    file = Path(pwd.getpwuid(os.getuid()).pw_dir) / uuid4().hex
    file.touch()
    file.unlink()
    return normalize(x, weight, eps)
