from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fib_rmsnorm.cli import main
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.reports.text import console
from support.full_registry import make_full_registry


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]

    def row(self, *words: str) -> str:
        """The only line that has all the words."""
        (line,) = [line for line in self.lines if all(word in line.split() for word in words)]
        return line


@pytest.fixture
def fib(capsys, monkeypatch):
    """Run a command as a user would, in this process: importing torch again would take seconds."""

    def run(*arguments: str | Path) -> Outcome:
        console.stdout.cache_clear()
        console.stderr.cache_clear()
        monkeypatch.setattr(sys, "argv", ["fib-rmsnorm", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        found = capsys.readouterr()
        return Outcome(exit_.value.code, found.out, found.err)

    yield run
    console.stdout.cache_clear()
    console.stderr.cache_clear()


@pytest.fixture
def full_registry(tmp_path, monkeypatch) -> Registry:
    """A sound registry with some of everything; the working folder is its root."""
    registry = make_full_registry(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    monkeypatch.delenv("FIB_RMSNORM_ROOT", raising=False)
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    return registry
