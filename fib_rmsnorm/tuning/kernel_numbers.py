"""Other numbers in a kernel's file, such as its block size, each as a Solution of its own; nothing is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.schema import Definition, SourceFile
from fib_rmsnorm.tuning.tunable import Parameters, Tunable

# `BLOCK = 256`, an argument or default `BLOCK=256`, `BLOCK: tl.constexpr = 256`, `#define BLOCK 256`; not `n = 2 * m`.
_NUMBER = re.compile(r"((?:\b([A-Za-z_]\w*)(?:\s*:\s*[\w.]+)?\s*=\s*)|#\s*define\s+(\w+)\s+)(\d+)\b(?!\s*[.*/+%<-])")


@dataclass(frozen=True)
class TunableFile(Tunable):
    """A kernel's file, in which numbers are replaced wherever they have the name of a parameter."""

    def make_sources(self, parameters: Parameters) -> list[SourceFile]:
        """The sources, with other numbers in the file."""
        values = dict(parameters)

        def replace(found: re.Match[str]) -> str:
            return f"{found[1]}{values.get(found[2] or found[3], found[4])}"

        return [
            SourceFile(path=each.path, content=_NUMBER.sub(replace, each.content))
            if Path(each.path).name == self.name
            else each
            for each in self.solution.sources
        ]


def find_in_file(
    registry: Registry, file: Path, definitions: Sequence[Definition], call: str | None, chosen: Sequence[str]
) -> list[TunableFile]:
    """The `chosen` numbers of a kernel's file, for each of these Definitions, or for the one that it is meant for.

    `call` says what to call in it. Raises InputError if it has no numbers of these names, or none is chosen.
    """
    kernel = KernelFile(file, call=call)
    wanted = definitions or [choose_definition(registry, kernel)]
    drafts = [draft_solution(registry, kernel, each) for each in wanted]
    texts = [each.content for each in drafts[0].sources if Path(each.path).name == file.name]
    names = {found[2] or found[3] for text in texts for found in _NUMBER.finditer(text)}
    known = f"available: {', '.join(sorted(names)) or 'none'}"
    if not chosen:
        raise InputError(f"{file}: say which of its numbers to try, as in --set BLOCK_SIZE=64,128 ({known})")
    if unknown := [name for name in chosen if name not in names]:
        raise InputError(f"--set {unknown[0]}: {file} has no such number ({known})")
    values = dict.fromkeys(chosen, (0,))  # what is chosen replaces them
    return [TunableFile(file.name, each, draft, values) for each, draft in zip(wanted, drafts, strict=True)]
