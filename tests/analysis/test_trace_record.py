"""The fast reader of Traces mirrors the schema: a field that the schema renames or retypes fails here."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from pydantic import BaseModel

from fib_rmsnorm.analysis import decoding
from fib_rmsnorm.analysis.sections import SectionSettings
from fib_rmsnorm.analysis.trace_record import RecordedSettings, TraceRecord
from fib_rmsnorm.schema import Settings, Trace

DECODED_APART = {
    "workload": decoding._Workload,
    "environment": decoding._Environment,
    "settings": RecordedSettings,
}
"""Fields that the first pass leaves as raw JSON, and what they are decoded to."""


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


def is_mirror(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))


def differences(mirror: type, models: set[type[BaseModel]], place: str) -> Iterator[str]:
    """What `mirror` reads that none of the models has, at any depth."""
    known: dict[str, set[Any]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            known.setdefault(name, set()).update(choices(field.annotation))
    for name, annotation in typing.get_type_hints(mirror, include_extras=True).items():
        if name not in known:
            yield f"{place}.{name} is not in the schema"
            continue
        wanted = {DECODED_APART[name]} if choices(annotation) == {msgspec.Raw} else choices(annotation)
        parts = {kind for kind in wanted if is_mirror(kind)}
        for part in parts:
            yield from differences(
                part, {each for each in known[name] if issubclass(each, BaseModel)}, f"{place}.{name}"
            )
        if not parts and not covers(wanted, known[name]):
            yield f"{place}.{name} is read as {wanted}, the schema has {known[name]}"


def covers(wanted: set[Any], known: set[Any]) -> bool:
    """Whether each value of the schema can be read: an int as a float too, a mapping by what its values may be."""
    for each in known:
        if isinstance(each, tuple):
            found = [one for one in wanted if isinstance(one, tuple) and one[0] is each[0]]
            if not any(_holds(one, each) for one in found):
                return False
        elif each not in wanted and not (each is int and float in wanted):
            return False
    return True


def _holds(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    for mine, its in zip(one[1:], other[1:], strict=True):
        models = {each for each in its if isinstance(each, type) and issubclass(each, BaseModel)}
        if models:
            (mirror,) = mine
            if list(differences(mirror, models, mirror.__name__)):
                return False
        elif not covers(set(mine), set(its)):
            return False
    return True


def test_every_field_that_is_read_is_one_of_the_schema():
    assert list(differences(decoding._Trace, {Trace}, "Trace")) == []


def test_a_field_that_is_renamed_or_retyped_is_found():
    class Renamed(msgspec.Struct):
        definitions: str

    class Retyped(msgspec.Struct):
        definition: int

    assert list(differences(Renamed, {Trace}, "Trace")) == ["Trace.definitions is not in the schema"]
    assert "is read as" in next(differences(Retyped, {Trace}, "Trace"))


@pytest.mark.parametrize("mirror", [RecordedSettings, SectionSettings])
def test_settings_are_whole(mirror):
    """All of them decide whether two numbers can be compared."""
    assert set(typing.get_type_hints(mirror)) == set(Settings.model_fields)


def test_a_record_has_every_field_that_is_decoded():
    decoded = {
        name for part in (*TraceRecord.__mro__, decoding._Performance) if is_dataclass(part) for name in names(part)
    }
    assert decoded - {"ceiling", "chain", "clocks"} == names(TraceRecord)


def names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}
