"""Sources shared between Solutions: what a folder packs with the files that its manifest includes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.sources.packing import read_sources

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}\.(h|cuh|py|inl)", fullmatch=True)
CONTENTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r"), min_size=1).filter(str.strip)
PLACES = st.sampled_from(["ann/shared", "ann/shared/cuda", "bob/norm/rmsnorm_d128/other_v1"])


def lay_out(solutions: Path, files: dict[str, str], shared: dict[str, str]) -> tuple[Path, list[str]]:
    """Write each file into the folder, or where `shared` says; return the folder and what it includes."""
    folder = solutions / "ann" / "norm" / "rmsnorm_d128" / "one_v1"
    for name, content in files.items():
        place = solutions / shared[name] if name in shared else folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content.encode())
    folder.mkdir(parents=True, exist_ok=True)
    return folder, [f"{place}/{name}" for name, place in shared.items()]


@settings(max_examples=50, deadline=None)
@given(st.data(), st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=6))
def test_where_a_file_lies_changes_nothing(data, files):
    shared = data.draw(st.dictionaries(st.sampled_from(sorted(files)), PLACES))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        own = read_sources(lay_out(Path(one), files, {})[0], [], Path(one))
        folder, include = lay_out(Path(other), files, shared)
        assert read_sources(folder, data.draw(st.permutations(include)), Path(other)) == own
    assert {source.path: source.content for source in own} == files


@settings(max_examples=25, deadline=None)
@given(st.data(), st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=4))
def test_no_name_is_packed_twice(data, files):
    taken = data.draw(st.sampled_from(sorted(files)))
    place = data.draw(PLACES)
    with tempfile.TemporaryDirectory() as root:
        solutions = Path(root)
        folder, _ = lay_out(solutions, files, {})
        (solutions / place).mkdir(parents=True, exist_ok=True)
        (solutions / place / taken).write_text("another")
        with pytest.raises(InputError, match="which already exists in the folder"):
            read_sources(folder, [f"{place}/{taken}"], solutions)
        (folder / taken).unlink()
        with pytest.raises(InputError, match="would both be packed as"):
            read_sources(folder, [f"{place}/{taken}"] * 2, solutions)
