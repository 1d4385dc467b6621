"""The fast reader of Traces finds its fields by the schema: one that the schema renames or retypes fails here."""

from __future__ import annotations

import types
import typing
from dataclasses import fields
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from fib_rmsnorm.analysis.decoding import record_of
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.schema import (
    Ceiling,
    Chain,
    Clocks,
    Correctness,
    Environment,
    Evaluation,
    Performance,
    Settings,
    Trace,
)
from support.trace_json import records, trace

PLACES = {
    Settings: ("evaluation", "settings"),
    Correctness: ("evaluation", "correctness"),
    Performance: ("evaluation", "performance"),
    Ceiling: ("evaluation", "performance", "ceiling"),
    Chain: ("evaluation", "performance", "chain"),
    Clocks: ("evaluation", "performance", "clocks"),
    Environment: ("evaluation", "environment"),
    Evaluation: ("evaluation",),
    Trace: (),
}
"""Where the JSON of a Trace has the parts of the schema."""
SAMPLES: tuple[Any, ...] = (True, 7, 0.75, "said", ["said"], [0.75], {"said": "said"})
OF_THE_READER = {"workload", "axes", "scalars", "author", "language", "path", "file", "line"}
HINTS = typing.get_type_hints(TraceRecord, include_extras=True)


def choices(annotation: Any) -> set[Any]:
    """The types that a value may have, None apart, in a form that both sides share."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return choices(arguments[0])
    if origin in (Union, types.UnionType):
        return set().union(*map(choices, arguments)) - {type(None)}
    if origin is Literal:
        return {type(value) for value in arguments}
    if origin in (list, dict):
        return {(origin, *(frozenset(choices(each)) for each in arguments))}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {type(each.value) for each in annotation}
    return {annotation}


@pytest.mark.parametrize("name", sorted(HINTS.keys() - OF_THE_READER))
def test_a_field_of_a_record_is_one_of_the_schema(name):
    """Of one part, and of the type that it has there."""
    (part,) = (part for part in PLACES if name in part.model_fields)
    assert choices(part.model_fields[name].annotation) <= choices(HINTS[name])


@pytest.mark.parametrize("name", sorted(HINTS.keys() - OF_THE_READER))
def test_it_is_read(name):
    (place,) = (place for part, place in PLACES.items() if name in part.model_fields)
    known = choices(HINTS[name])
    value = next(each for each in SAMPLES if type(each) in known or choices_of(each) & known)
    written = trace()
    holder = written
    for key in place:
        holder = holder.setdefault(key, {})
    holder[name] = value
    (record,) = records(written)
    assert getattr(record, name) == value


def choices_of(value: Any) -> set[Any]:
    """Of a list or an object, as `choices` tells them."""
    held = [value, value.values()] if isinstance(value, dict) else [value] if isinstance(value, list) else []
    return {(type(value), *(frozenset({type(next(iter(each)))}) for each in held))} if held else set()


def test_settings_are_whole():
    """All of them decide whether two numbers can be compared."""
    assert Settings.model_fields.keys() <= HINTS.keys()


def test_a_workload_has_no_record():
    assert record_of(Trace.model_validate({**trace(), "solution": None, "evaluation": None}), 1) is None


def test_a_record_has_all_fields():
    """Also one whose Trace tells little, since no constructor makes it."""
    late = trace()
    late["evaluation"] |= {"status": "TIMEOUT", "correctness": None, "performance": None, "settings": None}
    record = record_of(Trace.model_validate(late), 1)
    assert {field.name for field in fields(record)} == vars(record).keys()
    assert record.status == "TIMEOUT"
