"""Find a record by the name that a user types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.sources.packing import require_packed
from fib_rmsnorm.registry.workload_titles import NamedWorkload, show_name, title_workloads
from fib_rmsnorm.schema import Definition, Solution, Trace, trace_id

_SHORTEST_PREFIX = 4
_MOST_SHOWN = 5


def find_record(catalogue: Catalogue, name: str) -> Definition | Solution | Trace:
    """Find the record that `name` names; a Workload is returned as a Trace without a Solution.

    - a Definition's or Solution's name;
    - `SOLUTION@WORKLOAD`: the newest Trace of a Solution on a Workload;
    - `DEFINITION@WORKLOAD`: a Workload; here and above, WORKLOAD is the start of a uuid, or a title
      (`batch=8`, `batch=8,eps=0.1`);
    - the start of a Workload's uuid or a Trace's id, at least 4 characters.

    Raises InputError with similar names for a name that is unknown or ambiguous, and for sources that cannot be packed.
    """
    named = catalogue.definitions.get(name) or catalogue.solutions.get(name)
    if named is not None:
        return named
    owner, at, workload = name.rpartition("@")
    if at:
        return _find_on_workload(catalogue, owner, workload)
    require_packed(catalogue.faulty, [name], catalogue.solutions, chooses_all=False)
    return _find_by_prefix(catalogue, name)


def _find_on_workload(catalogue: Catalogue, owner: str, workload: str) -> Trace:
    if owner in catalogue.definitions:
        records = [record for record in catalogue.workloads if record.definition == owner]
    else:
        records = [trace for trace in catalogue.traces if trace.solution == owner]
        if not records and owner not in catalogue.solutions:
            raise _unknown(catalogue, owner)
    found = [record for record in records if is_workload(record, workload)]
    if not found:
        there = _names(records)
        what = "Workload" if owner in catalogue.definitions else "Trace"
        raise InputError(f"{owner} has no {what} at {workload!r} (available: {', '.join(there) or 'none'})")
    if len(names := _names(found)) > 1:
        raise _ambiguous(f"{owner}@{workload}", (show_name(owner, name) for name in names))
    return max(found, key=_timestamp)


def _find_by_prefix(catalogue: Catalogue, name: str) -> Trace:
    prefix = name.lower()
    if len(prefix) < _SHORTEST_PREFIX:
        raise _unknown(catalogue, name)
    found = {r.workload.uuid: r for r in catalogue.workloads if r.workload.uuid.lower().startswith(prefix)}
    found.update({trace_id(t): t for t in catalogue.traces if trace_id(t).startswith(prefix)})
    if not found:
        raise _unknown(catalogue, name)
    if len(found) > 1:
        raise _ambiguous(name, found)
    return next(iter(found.values()))


def axes_name(record: Trace) -> str:
    """Return a Workload's axes as one word: `batch=8`, `batch=8,length=128`."""
    return ",".join(f"{axis}={value}" for axis, value in record.workload.axes.items())


def _names(records: Iterable[Trace]) -> list[str]:
    """What tells the Workloads of the records from each other, as one word each."""
    titles = title_workloads(NamedWorkload.of(record.workload) for record in records)
    return [title.replace(" ", "") for title in titles.values()]


def is_workload(record: Trace, name: str) -> bool:
    """Whether `name` is the start of the Workload's uuid, or its title in any order: all its axes, and any scalars."""
    parts = set(re.split(r"[,\s]+", name.strip()))
    named = NamedWorkload.of(record.workload)
    axes = {f"{axis}={value}" for axis, value in named.axes.items()}
    if "=" in name:
        return axes <= parts and all(_is_scalar(part, named) or _is_uuid(part, named) for part in parts - axes)
    return _is_uuid(name, named)


def _is_scalar(part: str, workload: NamedWorkload) -> bool:
    """Whether it gives a scalar as a title does, in any notation: `eps=1e-5`."""
    name, _, value = part.partition("=")
    try:
        return name in workload.scalars and f"{float(value):g}" == f"{workload.scalars[name]:g}"
    except ValueError:
        return False


def _is_uuid(part: str, workload: NamedWorkload) -> bool:
    return len(part) >= _SHORTEST_PREFIX and workload.uuid.lower().startswith(part.lower())


def _timestamp(record: Trace) -> str:
    return record.evaluation.timestamp if record.evaluation else ""


def _ambiguous(name: str, candidates: Iterable[str]) -> InputError:
    names = list(dict.fromkeys(candidates))
    more = ", ..." if len(names) > _MOST_SHOWN else ""
    return InputError(f"{name!r} is ambiguous: {', '.join(names[:_MOST_SHOWN])}{more}")


def _unknown(catalogue: Catalogue, name: str) -> InputError:
    names = [*catalogue.definitions, *catalogue.solutions]
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"similar: {', '.join(close)}" if close else "see: fib-rmsnorm list"
    return InputError(f"no Definition, Solution, Workload or Trace is named {name!r} ({hint})")
