"""Of a user's folders, a confined process reads what it imports and what the user names."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

import fib_rmsnorm
from fib_rmsnorm.sandbox.confinement.readable import find_readable
from support.command_line import run_python


def lies_beneath(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home with a package, a registry and a key; it is on `sys.path` itself, as with `python -m` in it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "module.py").touch()
    (tmp_path / "registry" / "traces").mkdir(parents=True)
    (tmp_path / "key").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_of_a_home_only_packages_and_modules(home):
    found = find_readable()
    assert lies_beneath(home / "package" / "__init__.py", found.readable)
    assert lies_beneath(home / "module.py", found.readable)
    assert not lies_beneath(home / "key", found.readable)
    assert not lies_beneath(home / "registry" / "traces", found.readable)
    assert not lies_beneath(home, found.listable)


def test_a_registry_on_the_path_of_modules_is_not_listed_but_its_packages_are_found(tmp_path, monkeypatch):
    """Who lists a folder can lock it, as commands lock a registry."""
    for name in ("definitions", "registrys_package"):
        (tmp_path / name).mkdir()
    (tmp_path / "registrys_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = find_readable()
    assert not lies_beneath(tmp_path, (*found.listable, *found.readable))
    monkeypatch.setattr(os, "listdir", refuse)
    assert importlib.util.find_spec("registrys_package")


def refuse(path: str) -> list[str]:
    raise PermissionError(path)


def test_of_a_folder_that_pip_installed_to_what_it_installed(home):
    for name in ("namespace/inner", "tool.libs", "tool-1.0.dist-info", "of-mine"):
        (home / name).mkdir(parents=True)
    names = ("namespace/inner/__init__.py", "tool.libs/libtool.so", "tool-1.0.dist-info/METADATA")
    (home / "tool-1.0.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in (*names, "../../bin/tool")))
    found = find_readable().readable
    assert all(lies_beneath(home / name, found) for name in names)
    assert not any(lies_beneath(home / name, found) for name in ("of-mine", "key", "../../bin"))


def test_the_package_and_the_interpreter_wherever_they_lie():
    found = find_readable().readable
    assert all(lies_beneath(Path(path), found) for path in (fib_rmsnorm.__file__, sys.executable, sys.prefix))


def test_what_the_environment_names_is_readable_but_of_libraries_no_home(home, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:{home / 'registry'}")
    monkeypatch.setenv("FIB_RMSNORM_READABLE", f"{home / 'package'}:{home / 'key'}")
    found = {*find_readable().readable}
    assert {str(home / name) for name in ("registry", "package", "key")} <= found and str(home) not in found


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, SYS_ADMIN, PERFMON = 1, 2, 14, 21, 38
ALWAYS = {DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK}

DROPS = """
import sys
from pathlib import Path
from fib_rmsnorm.sandbox import confinement

confinement._DRIVER_VERSION = Path(sys.argv[1])
confinement.drop_privileges(reads_counters=bool(sys.argv[2]))
print(Path("/proc/self/status").read_text())
"""


def kept(version_file, reads_counters=""):
    said = run_python("-c", DROPS, version_file, reads_counters)
    status = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    masks = {int(status[name], 16) for name in ("CapEff", "CapPrm")}
    (mask,) = masks
    return {number for number in range(64) if mask >> number & 1}


@needs_root
@pytest.mark.parametrize(
    ("version", "capability"),
    [(None, PERFMON), ("580.159.04\n", PERFMON), ("565.57.01\n", PERFMON), ("550.54.15\n", SYS_ADMIN), ("x", PERFMON)],
)
def test_it_keeps_files_and_locked_memory_and_to_count_what_the_driver_asks_for(tmp_path, version, capability):
    file = tmp_path / "version"
    if version is not None:
        file.write_text(version)
    always, counting = kept(file), kept(file, "yes")
    assert always <= ALWAYS and counting <= ALWAYS | {capability}
    if always == ALWAYS:  # not in a container without them
        assert counting == ALWAYS | {capability}
