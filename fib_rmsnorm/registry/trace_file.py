"""Files of Traces, as `bench --output` writes them: read one, and find what a registry does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.files.regular_files import MOST_ARRAY
from fib_rmsnorm.registry.store import describe, read_jsonl, read_text
from fib_rmsnorm.registry.workload_generation import generating_command
from fib_rmsnorm.schema import Trace, Workload

_parse_array = TypeAdapter(list[Trace]).validate_json


@dataclass(frozen=True)
class Unknown:
    """Records of a kind that Traces name and a registry lacks, or has otherwise."""

    kind: Literal["definition", "solution", "workload"]
    names: tuple[str, ...]
    traces: int
    """The number of Traces that name them."""
    remedy: str
    """What to do."""


def read_trace_file(path: Path) -> list[Trace]:
    """Read a .json array or a .jsonl file. Raises InputError for what is not a Trace, and for a file without any."""
    if path.suffix == ".jsonl":
        traces = read_jsonl(path, Trace)
    elif path.suffix == ".json":
        try:
            text = read_text(path, most=MOST_ARRAY)
            traces = _parse_array(text) if text.strip() else []
        except ValidationError as error:
            raise InputError(f"{path}: {describe(error)}") from None
    else:
        raise InputError(f"{path} is neither a registry nor a .json or .jsonl file of Traces")
    if not traces:
        raise InputError(f"no Traces in {path}")
    workloads = sum(trace.evaluation is None or trace.solution is None for trace in traces)
    if workloads:
        raise InputError(
            f"{path}: {workloads} of {len(traces)} records are not Traces: they lack a solution or an evaluation;"
            " to merge Workloads, name the registry that holds them"
        )
    return traces


def find_unknown(traces: Iterable[Trace], known: Catalogue) -> Iterator[Unknown]:
    """What Traces name and a registry does not know, a line's worth for each kind."""
    there = [trace for trace in traces if trace.definition in known.definitions]
    away = [trace for trace in traces if trace.definition not in known.definitions]
    if away:
        yield _group("definition", [trace.definition for trace in away], "create it with: fib-rmsnorm define")
    lacking = [trace.solution or "" for trace in there if not _knows_solution(trace, known)]
    if lacking:
        yield _group(
            "solution", lacking, "add its sources under solutions/, and run: fib-rmsnorm solve --definitions '*'"
        )
    workloads = {(each.definition, each.workload.uuid): each.workload for each in known.workloads}
    odd = [trace for trace in there if workloads.get((trace.definition, trace.workload.uuid)) != trace.workload]
    if odd:
        yield _group("workload", [_name_workload(trace) for trace in odd], _how_to_add(odd, known))


def _how_to_add(traces: Iterable[Trace], known: Catalogue) -> str:
    """A command for each Definition, if its Workloads are generated ones."""
    wanted: dict[str, dict[str, Workload]] = {}
    for trace in traces:
        wanted.setdefault(trace.definition, {})[trace.workload.uuid] = trace.workload
    commands = [
        generating_command(known.definitions[name], sorted(workloads.values(), key=lambda w: tuple(w.axes.values())))
        for name, workloads in wanted.items()
    ]
    found = [command for command in commands if command]
    return f"add with: {'; '.join(found)}" if len(found) == len(commands) else "no command generates them"


def _knows_solution(trace: Trace, known: Catalogue) -> bool:
    solution = known.solutions.get(trace.solution or "")
    return solution is not None and solution.definition == trace.definition


def _name_workload(trace: Trace) -> str:
    axes = ", ".join(f"{name}={size}" for name, size in trace.workload.axes.items())
    return f"{trace.workload.uuid[:8]} of {trace.definition} ({axes})"


def _group(kind: Literal["definition", "solution", "workload"], names: list[str], remedy: str) -> Unknown:
    return Unknown(kind, tuple(dict.fromkeys(names)), len(names), f"{remedy}; or merge the registry that has it")
