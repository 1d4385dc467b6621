"""A solution whose parameters are how long it naps, for `tune` on a CPU."""

from fib_rmsnorm.schema import Trace
from support.paths import REPOSITORY
from support.registries import add_sources, make_registry, pack_all, python_manifest

NAME = "napping_v1"
TABLE = "choices.inc"
READER = REPOSITORY / "solutions" / "fib-rmsnorm" / "shared" / "python" / "choices.py"
KERNEL = """\
import time

import torch

from .choices import find_choice


def run(x, weight, eps):
    batch, hidden = x.shape
    choice = find_choice(batch, hidden=hidden, itemsize=x.element_size()) or {"few": 0, "many": 0}
    if choice["few"] == 9:
        raise ValueError("9 is too many")
    time.sleep(0.004 * choice["few" if batch < 4 else "many"])
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
"""
EMPTY = "// Nothing was measured.\n"
TUNE = """
[tune]
table = "choices.inc"
parameters = { few = [0, 1], many = [1, 0] }
limits = [{ product = ["few", "many"], least = 0, most = 0 }]
"""


def make_tunable(root):
    registry = make_registry(root, batch_sizes=(1, 8))
    add_sources(
        registry,
        NAME,
        {"kernel.py": KERNEL, "choices.py": READER.read_text(), TABLE: EMPTY},
        python_manifest(NAME) + TUNE,
    )
    pack_all(registry)
    return registry


def folder_of(registry):
    return registry.layout.solutions / "tester" / "norm" / "rmsnorm_d128" / NAME


def kept(registry):
    path = registry.layout.tuning_file("tester", "norm", "rmsnorm_d128", NAME)
    return [Trace.model_validate_json(line) for line in path.read_text().splitlines()]


def find_choice(folder, *key, **shape):
    """Ask the reader that a folder of sources holds."""
    names: dict = {"__file__": str(folder / READER.name)}
    exec(READER.read_text(), names)
    return names["find_choice"](*key, **shape)


def choose(registry, batch):
    choice = find_choice(folder_of(registry), batch, hidden=128, itemsize=2)
    return {name: choice[name] for name in ("few", "many")}
