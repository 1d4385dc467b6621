from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import Layout, check_name, find_root

UNSAFE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    ".hidden",
    "-option",
    "a\nb",
    "a b",
    "a\0b",
    "é",
    "a" * 201,
    "~",
    "a\\b",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_name_is_refused_wherever_it_stands(name, tmp_path):
    layout = Layout(tmp_path)
    places = {layout.definition: 2, layout.workload_file: 2, layout.trace_file: 3, layout.solution: 4}
    for place, parts in places.items():
        for position in range(parts):
            with pytest.raises(InputError, match="not a safe name"):
                place(*(name if each == position else "safe" for each in range(parts)))


@given(st.text(max_size=30))
def test_no_name_leads_out_of_its_folder(name):
    layout = Layout(Path("/registry"))
    try:
        check_name(name, "name")
    except InputError:
        return
    assert layout.definition("norm", name).parent == Path("/registry/definitions/norm")
    assert layout.definition(name, "d").parent.parent == Path("/registry/definitions")
    assert layout.solution(name, "norm", "d", "s").parents[3] == Path("/registry/solutions")


def test_paths_are_those_of_a_flashinfer_trace_dataset():
    layout = Layout(Path("/r"))
    assert layout.definition("norm", "d") == Path("/r/definitions/norm/d.json")
    assert layout.solution("me", "norm", "d", "s") == Path("/r/solutions/me/norm/d/s.json")
    assert layout.workload_file("norm", "d") == Path("/r/workloads/norm/d.jsonl")
    assert layout.trace_file("me", "norm", "d") == Path("/r/traces/me/norm/d.jsonl")
    assert layout.published_file("norm", "d") == Path("/r/traces/published/norm/d.jsonl")


def test_no_author_writes_among_the_published_traces():
    layout = Layout(Path("/r"))
    for place in (layout.trace_file, lambda *parts: layout.solution(*parts, "s")):
        with pytest.raises(InputError, match="an author cannot be named 'published'"):
            place("published", "norm", "d")


def make_root(folder: Path) -> Path:
    (folder / "definitions").mkdir(parents=True)
    (folder / "solutions").mkdir()
    return folder


def test_find_root_looks_upward(tmp_path, monkeypatch):
    root = make_root(tmp_path / "registry")
    below = root / "solutions" / "me"
    below.mkdir()
    monkeypatch.chdir(below)
    assert find_root() == root


def test_find_root_prefers_what_it_is_given_then_the_variable(tmp_path, monkeypatch):
    here, named, given = (make_root(tmp_path / name) for name in ("here", "named", "given"))
    monkeypatch.chdir(here)
    monkeypatch.setenv("FIB_RMSNORM_ROOT", str(named))
    assert find_root(given) == given
    assert find_root() == named
    monkeypatch.setenv("FIB_RMSNORM_ROOT", "")
    assert find_root() == here


def test_a_mistyped_root_is_an_error_and_is_not_made(tmp_path, monkeypatch):
    missing = tmp_path / "registri"
    with pytest.raises(InputError, match=r"no such folder: .*fib-rmsnorm init"):
        find_root(missing)
    monkeypatch.setenv("FIB_RMSNORM_ROOT", str(missing))
    with pytest.raises(InputError, match="no such folder"):
        find_root()
    assert not missing.exists()


def test_a_folder_that_is_not_a_registry_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"not a registry: .* lacks"):
        find_root(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no registry in .* or above it"):
        find_root()
    assert list(tmp_path.iterdir()) == []
