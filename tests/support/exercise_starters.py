"""The kernels of a page in the place of what its starters leave out."""

from __future__ import annotations

import re
from pathlib import Path

from support.exercise_page import page_of


def _blocks(number: int) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page_of(number), re.MULTILINE | re.DOTALL)


def fill_in(folder: Path, body: str = "") -> Path:
    """Write the body of the kernel of exercise 1, by default the page's, and return its file."""
    (right,) = _blocks(1)
    kernel = folder / "triton_rmsnorm.py"
    before, rest = kernel.read_text(encoding="utf-8").split("    # One program for each row.")
    kernel.write_text(before + (body or right) + rest[rest.index("\n\ndef run") :], encoding="utf-8")
    return kernel


def fill_in_passes(folder: Path) -> None:
    """Write the kernels and the module of exercise 2."""
    kernel, module, relu_store = _blocks(2)
    relu = "".join([*kernel.splitlines(keepends=True)[:-1], relu_store])
    for name, body in (("rmsnorm_module.py", kernel), ("rmsnorm_relu.py", relu)):
        text = (folder / name).read_text(encoding="utf-8")
        text = re.sub(r"(    # (?:One|TODO).*\n)+    pass\n", lambda _, body=body: body, text, count=1)
        text = re.sub(r"        # TODO.*\n        return x\n", lambda _: module, text)
        assert "TODO" not in text
        (folder / name).write_text(text, encoding="utf-8")
