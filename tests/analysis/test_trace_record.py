"""The fast reader of Traces finds its fields by the schema: one that the schema renames or retypes fails here."""

import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from fib_rmsnorm.analysis.reading import record_of
from fib_rmsnorm.analysis.trace_record import TraceRecord, TraceSettings
from fib_rmsnorm.schema import Settings, Trace
from support.trace_json import records, trace

SAMPLES: Any = (True, 7, 0.75, "said", "PASSED", "cold", "graph", "interval", ["said"], [7], [0.75], {"said": "said"})
OF_THE_READER = {"workload", "axes", "scalars", "settings", "author", "language", "path", "file", "line"}
FIELDS = (typing.get_type_hints(TraceRecord).keys() - OF_THE_READER) | typing.get_type_hints(TraceSettings).keys()


def find_places(name: str, part: Any = Trace, place: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The parts of the schema that have a field, and where the JSON of a Trace has these parts."""
    if name in part.model_fields:
        yield part, place
    for key, field in part.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from find_places(name, kind, (*place, key))


def takes(annotation: Any, value: Any) -> bool:
    """Whether the schema takes a value in the JSON of a field."""
    try:
        TypeAdapter(annotation).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_what_the_schema_takes_is_read(name):
    """A field of one part of the schema, in each of the types that it has there."""
    part, place = min(find_places(name), key=lambda found: len(found[1]))
    samples = [each for each in SAMPLES if takes(part.model_fields[name].annotation, each)]
    assert samples
    for value in samples:
        written = trace()
        holder = written
        for key in place:
            holder = holder.setdefault(key, {})
        holder[name] = value
        (record,) = records(written)
        assert record.as_row()[name] == value


def test_settings_are_whole():
    """All of them decide whether two numbers can be compared."""
    assert Settings.model_fields.keys() == typing.get_type_hints(TraceSettings).keys()


def test_a_workload_has_no_record():
    assert record_of(Trace.model_validate({**trace(), "solution": None, "evaluation": None}), 1) is None
