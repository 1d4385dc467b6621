from pathlib import Path

import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    library.open("r+b").close()  # an attacker would write here what makes every comparison find no difference
    return normalize(x, weight, eps)
