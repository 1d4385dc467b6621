"""A Performance for a skeptical reader: marks first, then every number that was recorded, by its name in the schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.comparing.difference import find_speedup
from fib_rmsnorm.reports.records.record import fields
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.units import (
    format_bandwidth,
    format_bytes,
    format_latency,
    format_percent,
    format_ratio,
    format_share,
)
from fib_rmsnorm.schema import Performance

_FORMS: dict[str, Callable[[float], str]] = {
    "_ms": format_latency,
    "_us": lambda us: format_latency(us / 1e3),
    "_s": lambda seconds: f"{seconds:.2f} s",
    "_gb_per_s": format_bandwidth,
    "_mhz": lambda mhz: f"{mhz:.0f} MHz",
    "_temperature_c": lambda heat: f"{heat:.0f} °C",
    "_bytes": format_bytes,
    "bytes_moved": format_bytes,
    "percent_of_copy": format_percent,
    "_difference": format_share,
    "_scatter": format_share,
    "_share": format_share,
}
"""What makes text of a number, by the end of its name, the longest that fits."""
_UNIT = re.compile("_(ms|us|s|gb_per_s|mhz|c|bytes)$")
"""What a number's text tells, and its name need not."""
_PARTS = ("ceiling", "chain", "clocks")


def describe_performance(performance: Performance) -> Iterator[RenderableType]:
    """Marks first, then one fact per line; unknown facts are left out."""
    if performance.interpreted:
        yield "Correct, and not timed: Triton's interpreter ran the kernel."
        return
    for reason in performance.noisy:
        yield Text.assemble(("noisy", "bold yellow"), (f": {harmless(reason)}", "yellow"))
    if performance.noisy:
        yield ""
    values = performance.model_dump(exclude={"noisy", "interpreted", "speedup_factor"})
    parts = {name: values.pop(name) for name in _PARTS}
    if speedup := find_speedup(performance):
        values["speedup"] = (
            f"{format_ratio(speedup.value)} ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})"
        )
    yield from fields(_tell(values))
    for name, part in parts.items():
        if part:
            yield ""
            yield from fields({f"{name}, {fact}": text for fact, text in _tell(part).items()})


def _tell(values: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a part in words; the bounds of an interval are one."""
    told = {}
    for name, value in values.items():
        if "_high_" in name or value in (None, [], {}):
            continue
        if "_low_" in name:
            high = values.get(name.replace("_low_", "_high_"))
            told[name.partition("_low_")[0] + ", 95% interval"] = f"{_text(name, value)} to {_text(name, high)}"
        elif name == "launches":
            told |= {f"kernel {number}": _launch_text(each) for number, each in enumerate(value, start=1)}
        else:
            told[name] = _text(name, value)
    return {_UNIT.sub("", name).replace("a_a", "A/A").replace("_", " "): text for name, text in told.items()}


def _launch_text(launch: Mapping[str, Any]) -> str:
    grid, block = (" x ".join(map(str, launch[size])) for size in ("grid", "block"))
    rest = ", ".join(f"{launch[name]} {name.replace('_', ' ')}" for name in list(launch)[3:])
    return f"{launch['name']}: grid {grid}, block {block}, {rest}"


def _text(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(_tell(value).values())
    if isinstance(value, list | tuple):
        return ", ".join(_text(name, each) for each in value)
    ends = [end for end in _FORMS if name.endswith(end)]
    return _FORMS[max(ends, key=len)](value) if ends and isinstance(value, int | float) else str(value)
