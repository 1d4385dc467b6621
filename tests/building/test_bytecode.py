"""Packages without bytecode get theirs from the cache, if nobody else can write to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fib_rmsnorm
from fib_rmsnorm.building.bytecode import bytecode_variables, describe_missing_bytecode
from fib_rmsnorm.building.cache import cache_folder

_PACKAGE = "a_package_without_bytecode"


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """An installed package that has no bytecode, in an interpreter that writes none."""
    (tmp_path / "site" / _PACKAGE).mkdir(parents=True)
    (tmp_path / "site" / _PACKAGE / "__init__.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return tmp_path / "site" / _PACKAGE


def import_it(package: Path) -> None:
    """As the fork server does, from an environment that forbids to write bytecode."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **bytecode_variables(_PACKAGE)}
    variables["PYTHONPATH"] = str(package.parent)
    subprocess.run([sys.executable, "-c", f"import {_PACKAGE}"], env=variables, check=True)


def test_a_process_keeps_bytecode_and_the_next_one_reads_it(package):
    import_it(package)
    (kept,) = cache_folder().rglob(f"{_PACKAGE}/__init__.*.pyc")
    assert not (package / "__pycache__").exists()
    written = kept.stat().st_mtime_ns
    import_it(package)
    assert kept.stat().st_mtime_ns == written


def test_another_version_of_a_package_has_another_folder(package):
    before = bytecode_variables(_PACKAGE)
    (package.parent / f"{_PACKAGE}-2.0.dist-info").mkdir()
    assert bytecode_variables(_PACKAGE)["PYTHONPYCACHEPREFIX"] != before["PYTHONPYCACHEPREFIX"]


def test_a_package_with_bytecode_needs_none(package, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert bytecode_variables(_PACKAGE) == {}, "its first import writes it"
    assert describe_missing_bytecode(_PACKAGE) is None
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert bytecode_variables(_PACKAGE) == {}


def test_what_env_tells_to_run_gives_packages_theirs(package):
    told = describe_missing_bytecode(_PACKAGE)
    assert told and _PACKAGE in told
    subprocess.run(told.partition("runs once: ")[2].split(), check=True)
    assert describe_missing_bytecode(_PACKAGE) is None
    assert bytecode_variables(_PACKAGE) == {}


def test_what_the_user_named_stays(package, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "of-the-user"))
    assert bytecode_variables(_PACKAGE) == {}


def test_where_new_folders_are_for_the_group(package):
    before = os.umask(0o002)
    try:
        folder = Path(bytecode_variables(_PACKAGE)["PYTHONPYCACHEPREFIX"])
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o077 for each in (folder, folder.parent)] == [0, 0]


def test_a_folder_that_others_can_write_to_is_not_used(package):
    folder = Path(bytecode_variables(_PACKAGE)["PYTHONPYCACHEPREFIX"])
    folder.chmod(0o777)
    assert bytecode_variables(_PACKAGE) == {}
    folder.rmdir()
    folder.symlink_to(package)
    assert bytecode_variables(_PACKAGE) == {}


def test_a_command_keeps_that_of_what_it_imports(tmp_path):
    """As uv installs it: torch, whose bytecode is looked for, is an empty package here, which no command imports."""
    site = tmp_path / "site"
    shutil.copytree(Path(fib_rmsnorm.__file__).parent, site / "fib_rmsnorm", ignore=shutil.ignore_patterns("*.pyc"))
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").touch()
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "fib_rmsnorm", "legend"]
    for said in (1, 0):
        run = subprocess.run(command, env=variables, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert run.stderr.count("installed packages lack bytecode") == said
    assert any((cache_folder() / "bytecode").rglob("fib_rmsnorm/cli/legend.*.pyc"))
    assert not any(site.rglob("*.pyc"))
