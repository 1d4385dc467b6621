"""What every command reads of a Solution: its sources as they are now, not the JSON that was packed from them."""

from pathlib import Path

import pytest

from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sessions.try_plan import choose_rivals
from support.command_line import QUICK_OPTIONS
from support.full_registry import CUDA, DEFINITION, PYTHON, PYTHON_FOLDER, PYTHON_SOURCE
from support.paths import files_of, write
from support.registries import RIGHT, WRONG, add_sources

SOLVE = ("solve",)
BENCH = ("bench", *QUICK_OPTIONS, "--batch-sizes", "1")


def test_only_the_chosen_solutions_are_packed(fib, registry):
    for name, source in (("right_v1", RIGHT), ("right_v2", RIGHT), ("wrong_v1", WRONG)):
        add_sources(registry, name, {"kernel.py": source})
    solved = fib("solve", "--solutions", "right_*", "--json").answer
    assert [each["name"] for each in solved] == ["right_v1", "right_v2"]
    assert set(registry.packed_solutions()) == {"right_v1", "right_v2"}


def spoil(registry, which: str) -> Path:
    """Sources beside others, with a manifest or a kernel that cannot be read."""
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    folder = add_sources(registry, "other_v1", {"kernel.py": RIGHT}, "[[[" if which == "manifest" else None)
    if which == "kernel":
        (folder / "kernel.py").write_bytes(b"\xff")
    return folder


@pytest.mark.parametrize("which", ["manifest", "kernel"])
@pytest.mark.parametrize(
    ("command", "chosen", "is_meant"),
    [
        *((each, ("--solutions", "right_v1"), False) for each in (SOLVE, BENCH)),
        *((each, ("--solutions", "*_v1"), True) for each in (SOLVE, BENCH)),
        *((each, ("--languages", "python"), True) for each in (SOLVE, BENCH)),
        (BENCH, ("--definitions", "rmsnorm_d128"), True),
    ],
    ids=lambda value: " ".join(value[:1] + value[-1:]) if isinstance(value, tuple) else "",
)
def test_sources_that_cannot_be_packed_stop_no_others(fib, registry, which, command, chosen, is_meant):
    folder = spoil(registry, which)
    outcome = fib(*command, *chosen)
    assert set(registry.packed_solutions()) == {"right_v1"}
    assert "right_v1" in outcome.out and "other_v1" not in outcome.out
    assert outcome.code == is_meant
    assert (f"Failed other_v1: {folder}" in " ".join(outcome.err.split())) is is_meant


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        *((each, ()) for each in (SOLVE, BENCH)),
        *((each, ("--solutions", "right_v1,other_v1")) for each in (SOLVE, BENCH)),
        *((each, ("--solutions", "other*")) for each in (SOLVE, BENCH)),
        (BENCH, ("--against", "other_v1")),
    ],
)
def test_sources_that_cannot_be_packed_are_an_error_where_they_are_needed(fib, registry, command, chosen):
    folder = spoil(registry, "manifest")
    assert fib(*command, *chosen).refusal.startswith(str(folder))
    assert registry.packed_solutions() == {}


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "right_v1"),
        ("explain", "rigth_v1"),
        ("profile", "right_v1", "--batch-sizes", "1"),
        ("define", "rmsnorm", "--hidden", "128"),
    ],
    ids=" ".join,
)
def test_commands_for_another_solution_take_no_notice_of_it(fib, registry, command):
    """Also not where they have nothing to tell."""
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    before = fib(*command)
    spoil(registry, "manifest")
    after = fib(*command)
    assert (after.code, after.out, after.err) == (before.code, before.out, before.err)


MARK = "# saved a second ago\n"


@pytest.fixture
def edited(full_registry) -> Registry:
    """The Python Solution's source was saved since it was packed."""
    (full_registry.root / PYTHON_FOLDER / "kernel.py").write_text(PYTHON_SOURCE + MARK)
    return full_registry


@pytest.fixture
def faulty(full_registry) -> Registry:
    """The Python Solution was packed once, and its manifest is no TOML since."""
    (full_registry.root / PYTHON_FOLDER / "solution.toml").write_text("name = ")
    return full_registry


@pytest.mark.parametrize(
    "command", [("show", PYTHON), ("show", PYTHON, "--json"), ("report", "--output", "page.html")], ids=" ".join
)
def test_sources_win_over_what_was_packed_and_nothing_is_written(fib, edited, tmp_path, monkeypatch, command):
    before = files_of(edited.root)
    monkeypatch.chdir(tmp_path)
    outcome = fib(*command, "--root", edited.root)
    assert outcome.code == 0, outcome.err
    page = tmp_path / "page.html"
    assert MARK.strip() in (page.read_text() if page.exists() else outcome.out)
    assert files_of(edited.root) == before


def test_sources_that_were_never_packed_are_a_solution(fib, full_registry):
    for path in full_registry.layout.solutions.rglob("*.json"):
        path.unlink()
    assert {row["name"] for row in fib("list", "solutions", "--json").json} == {CUDA, PYTHON}
    assert fib("show", CUDA).lines[0] == f"Solution: {CUDA}"


def test_what_is_measured_are_the_sources(fib, full_registry, tmp_path):
    """The packed Solution is right."""
    (full_registry.root / PYTHON_FOLDER / "kernel.py").write_text(WRONG)
    right = write(tmp_path / "right.py", RIGHT)
    options = ("--device", "cpu", "--batch-sizes", "8", "--rounds", "1")
    outcome = fib("compare", "--measure", right, PYTHON, *options)
    assert outcome.code == 1, outcome.err
    assert f"Regression: now failing: right.py -> {PYTHON}@batch=8 (INCORRECT_NUMERICAL)" in outcome.lines


def test_a_rival_is_what_its_sources_are(edited):
    (rival,) = choose_rivals(edited, edited.definition(DEFINITION), choose_devices("cpu")[0])
    assert rival.sources[0].content.endswith(MARK)


def test_deploy_packs_what_models_will_read(fib, edited):
    assert fib("deploy", ".", "--authors", "baseline").code == 0
    assert edited.packed_solutions()[PYTHON].sources[0].content.endswith(MARK)


@pytest.mark.parametrize(
    "command",
    [("show", PYTHON), ("compare", "--measure", PYTHON, CUDA), ("explain", PYTHON), ("merge", ".", ".")],
    ids=" ".join,
)
def test_what_cannot_be_packed_is_refused_in_a_line(fib, faulty, command):
    assert f"{PYTHON_FOLDER}/solution.toml" in fib(*command).refusal


def test_what_cannot_be_packed_is_left_out_of_a_list(fib, faulty):
    outcome = fib("list", "solutions")
    assert outcome.code == 0 and PYTHON not in outcome.out and CUDA in outcome.out
    assert outcome.err.startswith(f"Left out {PYTHON}: ")
    assert fib("show", CUDA).err == ""
