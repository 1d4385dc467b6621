import re
from operator import attrgetter
from pathlib import Path

import torch

import fib_rmsnorm

NAMES = {
    "torch._C._are_functorch_transforms_active",
    "torch._C._cuda_getCurrentRawStream",
    "torch._C._dispatch_has_kernel_for_dispatch_key",
    "torch._C._is_any_autocast_enabled",
    "torch.compiler._is_exporting_flag",
}
"""The private names of torch on which the norms of models lean: another release may lack one."""


def test_these_private_names_are_all_and_this_torch_has_them():
    package = Path(fib_rmsnorm.__file__).parent
    sources = [
        file.read_text() for room in ("functional", "nn", "deployment") for file in (package / room).glob("*.py")
    ]
    assert set(re.findall(r"torch(?:\.\w+)*\._[A-Za-z]\w*(?:\._\w+)*", "\n".join(sources))) == NAMES
    missing = {
        name
        for name in NAMES
        if not hasattr(attrgetter(name.rpartition(".")[0].removeprefix("torch."))(torch), name.rpartition(".")[2])
    }
    assert not {name for name in missing if "_cuda_" not in name or torch.version.cuda}
