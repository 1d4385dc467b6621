"""Sources are written as they are in the Solution, whatever lies there already, and in a place of its own."""

import pytest

from fib_rmsnorm.building.build_errors import BuildError
from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.source_files import load_python, write_sources
from fib_rmsnorm.schema import SourceFile
from support.registries import RIGHT, WRONG, add_kernel, add_sources, pack_all


@pytest.fixture
def solution(registry):
    return add_kernel(registry, "kernel_v1", "X = 1\n")


def test_what_differs_from_the_sources_is_written_again(solution, tmp_path):
    folder = tmp_path / "sources"
    write_sources(solution, folder)
    written = folder.stat().st_ino
    write_sources(solution, folder)
    assert folder.stat().st_ino == written
    (folder / "kernel.py").write_text("X = 2\n")
    write_sources(solution, folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "kernel.cpython-312.pyc").write_bytes(b"")
    write_sources(solution, folder)
    assert {path.name: path.read_text() for path in folder.rglob("*")} == {"kernel.py": "X = 1\n"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kernel.py/more.py", "Not a directory|File exists"),
        (300 * "x", "File name too long"),
        ("more\0.py", "embedded null"),
        (".", "Is a directory"),
    ],
)
def test_sources_that_no_folder_can_hold_do_not_compile(solution, tmp_path, name, why):
    more = SourceFile(path=name, content="X = 2\n")
    unwritable = solution.model_copy(update={"sources": [*solution.sources, more]})
    with pytest.raises(BuildError, match=why) as raised:
        write_sources(unwritable, tmp_path / "made" / "sources")
    assert repr(name) in str(raised.value) and str(tmp_path) not in str(raised.value)
    assert list((tmp_path / "made").iterdir()) == []


BROKEN = "import torch\n\n\ndef run(x, weight, eps:\n    return x\n"


def test_a_syntax_error_of_what_is_imported_is_reported_with_its_place(registry, tmp_path):
    add_sources(registry, "broken_v1", {"kernel.py": "from .row import run\n", "row.py": BROKEN})
    (solution,) = pack_all(registry)
    with pytest.raises(BuildError) as failure:
        load_python(solution, tmp_path / "cache")
    summary, *below = str(failure.value).splitlines()
    assert summary == "SyntaxError: '(' was never closed (row.py:4)"
    assert "    def run(x, weight, eps:" in below


def test_equal_sources_share_a_folder_and_no_others_do(registry):
    first, equal, other = (
        add_kernel(registry, name, source) for name, source in (("a_v1", RIGHT), ("b_v1", RIGHT), ("c_v1", WRONG))
    )
    assert solution_cache(first) == solution_cache(equal) != solution_cache(other)
    assert solution_cache(first).is_dir()


def test_every_compiler_keeps_its_files_there(tmp_path):
    found = {name: value for name, value in cache_variables(tmp_path).items() if not value.isdigit()}
    assert len(set(found.values())) == len(found) >= 10
    assert all(value.startswith(f"{tmp_path}/") for value in found.values())
