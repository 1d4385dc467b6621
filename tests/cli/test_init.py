import re
import shutil
from pathlib import Path

import pytest

from fib_rmsnorm.registry import Registry, shipped
from support.full_disk import files_of_at_most
from support.paths import files_of


@pytest.fixture(autouse=True)
def source(full_registry, tmp_path, monkeypatch) -> Path:
    """What ships is the small registry; the working folder is an empty one."""
    (full_registry.layout.solutions / "__pycache__").mkdir()
    (full_registry.layout.solutions / "__pycache__" / "kernel.cpython-311.pyc").write_bytes(b"")
    (full_registry.layout.solutions / ".hidden").write_text("")
    monkeypatch.setattr(shipped, "shipped_registry", lambda: full_registry.root)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return full_registry.root


def names(folder: str = ".") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_a_fresh_registry_holds_everything_but_traces(fib, source):
    outcome = fib("init", "demo")
    assert outcome.code == 0
    assert outcome.lines[:4] == [
        "Created a registry in demo: 1 Definition, 2 Solutions, 2 Workloads",
        "Next:",
        "  cd demo",
        "  fib-rmsnorm bench    # judge and time the kernels of its main Definition",
    ]
    unwanted = ("traces/", "solutions/.hidden", "solutions/__pycache__/")
    made = files_of(Path("demo"))
    assert b'main_definition = "rmsnorm_d128"' in made.pop("registry.toml")
    assert made == {n: c for n, c in files_of(source).items() if not n.startswith(unwanted)}
    assert list(Path("demo/traces").iterdir()) == []
    assert names() == ["demo"]
    assert fib("validate", "demo").code == 0 and fib("list", "--root", "demo").code == 0


def test_an_empty_folder_will_do_and_stays_the_same_folder(fib):
    Path("demo").mkdir(mode=0o750)
    inode = Path("demo").stat().st_ino
    found = fib("init", "demo", "--json").json
    assert found == {"root": str(Path("demo").resolve()), "definitions": 1, "solutions": 2, "workloads": 2}
    assert Path("demo").stat().st_ino == inode
    assert names("demo") == ["definitions", "registry.toml", "solutions", "traces", "workloads"]


def test_here_is_a_place_too(fib):
    outcome = fib("init", ".")
    assert outcome.code == 0
    assert "  cd ." not in outcome.lines
    assert names() == ["definitions", "registry.toml", "solutions", "traces", "workloads"]
    assert fib("list").code == 0


def test_folders_above_are_made_and_a_name_with_spaces_is_quoted(fib):
    assert "  cd 'a/b c/demo'" in fib("init", "a/b c/demo").lines
    assert Registry.find(Path("a/b c/demo")).definitions()
    Path("other").mkdir()
    assert Path("a/b c/demo").stat().st_mode == Path("other").stat().st_mode


@pytest.mark.parametrize(("failing", "exists"), [("copytree", False), ("copytree", True), ("rename", False)])
def test_a_failure_leaves_nothing_behind(fib, monkeypatch, exists, failing):
    if exists:
        Path("demo").mkdir()
    calls = []

    def fail_later(original):
        def call(*arguments, **options):
            calls.append(arguments)
            if len(calls) >= (3 if exists or failing == "copytree" else 1):
                raise OSError(28, "No space left on device")
            return original(*arguments, **options)

        return call

    where, name = (shutil, "copytree") if failing == "copytree" else (Path, "rename")
    monkeypatch.setattr(where, name, fail_later(getattr(where, name)))
    assert "No space left on device" in fib("init", "demo").refusal
    assert list(Path().rglob("*")) == ([Path("demo")] if exists else [])


def test_a_full_disk_is_one_line_with_the_first_file(fib):
    """With a line for each file that did not fit, it had hundreds."""
    with files_of_at_most(100):
        outcome = fib("init", "demo")
    assert re.fullmatch(r"cannot write /\S+: File too large", outcome.refusal)
    assert names() == []
