from __future__ import annotations

import pytest

from fib_rmsnorm.building.build_errors import BuildError
from fib_rmsnorm.building.source_files import load_python
from support.registries import add_sources, pack_all

BROKEN = "import torch\n\n\ndef run(x, weight, eps:\n    return x\n"


@pytest.mark.parametrize(
    ("files", "place"),
    [({"kernel.py": BROKEN}, "kernel.py:4"), ({"kernel.py": "from .row import run\n", "row.py": BROKEN}, "row.py:4")],
    ids=["entry", "imported"],
)
def test_a_syntax_error_is_told_with_its_place(registry, tmp_path, files, place):
    add_sources(registry, "broken_v1", files)
    (solution,) = pack_all(registry)
    with pytest.raises(BuildError) as failure:
        load_python(solution, tmp_path / "cache")
    summary, *below = str(failure.value).splitlines()
    assert summary == f"SyntaxError: '(' was never closed ({place})"
    assert "    def run(x, weight, eps:" in below
