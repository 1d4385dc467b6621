"""The schema is flashinfer-bench's: its fields, what it refuses and for which reason, and the JSON that it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import flashinfer_bench.data as upstream
import pytest
from pydantic import BaseModel, ValidationError

from fib_rmsnorm import schema
from support.paths import REPOSITORY
from support.trace_json import upstream_trace

KINDS = ("Definition", "Solution", "Trace")


def list_parts(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """The JSON schema of a model and of each part by name, without words."""
    whole = without_words(model.model_json_schema())
    return {**whole.pop("$defs"), model.__name__: whole}


def without_words(value: Any) -> Any:
    if isinstance(value, dict):  # a field may be named description: only words are strings
        kept = {key: each for key, each in value.items() if not (key in ("title", "description") and type(each) is str)}
        return {key: without_words(each) for key, each in kept.items()}
    return [without_words(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_has_upstreams_fields_in_their_order(kind):
    """Their types, defaults, bounds and choices too. Fields that we added come after them, and are optional."""
    ours = list_parts(getattr(schema, kind))
    for name, theirs in list_parts(getattr(upstream, kind)).items():
        mine = ours[name]
        shared = list(theirs.get("properties", ()))
        assert list(mine.get("properties", ()))[: len(shared)] == shared, name
        mine["properties"] = {field: mine["properties"][field] for field in shared}
        assert mine == {"properties": {}, **theirs}, name


def shared_part(mine: Any, theirs: Any) -> Any:
    """What we wrote, without the fields that we added."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return {key: shared_part(mine[key], value) for key, value in theirs.items()}
    if isinstance(mine, list) and isinstance(theirs, list):
        return [shared_part(*pair) for pair in zip(mine, theirs, strict=True)]
    return mine


def outcome(model: type[BaseModel], text: str) -> Any:
    """What a model writes of a record that it has read, or why it refuses it."""
    try:
        return model.model_validate_json(text).model_dump_json()
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False)


def assert_same(kind: str, text: str) -> None:
    mine, theirs = outcome(getattr(schema, kind), text), outcome(getattr(upstream, kind), text)
    if isinstance(mine, str) and isinstance(theirs, str):
        mine, theirs = json.loads(mine), json.loads(theirs)
        mine = shared_part(mine, theirs)
    assert mine == theirs


def committed_records() -> list[tuple[str, str]]:
    found = [("Definition", path.read_text()) for path in (REPOSITORY / "definitions").rglob("*.json")]
    found += [("Solution", path.read_text()) for path in (REPOSITORY / "solutions").glob("*/*/*/*.json")]
    for folder in ("workloads", "traces/published"):
        lines = [path.read_text().splitlines() for path in (REPOSITORY / folder).rglob("*.jsonl")]
        found += [("Trace", line) for each in lines for line in each]
    return found


def test_this_repositorys_records_are_read_alike():
    records = committed_records()
    assert {kind for kind, _ in records} == set(KINDS)
    for kind, text in records:
        assert isinstance(outcome(getattr(schema, kind), text), str)
        assert_same(kind, text)


DEFINITION = {
    "name": "norm_d4",
    "op_type": "norm",
    "axes": {"batch": {"type": "var", "description": "rows"}, "hidden": {"type": "const", "value": 4}},
    "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "float16"}, "eps": {"shape": None, "dtype": "float32"}},
    "outputs": {"out": {"shape": ["batch", "hidden"], "dtype": "float16", "description": "normalized"}},
    "reference": "def run(x, eps):\n    return x",
    "tags": ["op:norm"],
    "description": "A norm.",
    "constraints": ["hidden % 4 == 0"],
}
SOLUTION = {
    "name": "norm_v1",
    "definition": "norm_d4",
    "author": "someone",
    "spec": {
        "language": "cpp",
        "target_hardware": ["cpu"],
        "entry_point": "kernel.cpp::run",
        "dependencies": ["torch"],
        "destination_passing_style": False,
        "binding": "tvm-ffi",
    },
    "sources": [{"path": "kernel.cpp", "content": "// 1"}, {"path": "lib/row.h", "content": "// 2"}],
    "description": None,
}


def make_seeds() -> list[Any]:
    wrong, late, unlimited = upstream_trace(), upstream_trace(), upstream_trace(None)
    wrong["evaluation"] |= {"status": "INCORRECT_NUMERICAL", "performance": None}
    wrong["evaluation"]["correctness"] |= {"max_absolute_error": "Infinity", "extra": {"cases": []}}
    late["evaluation"] |= {"status": "TIMEOUT", "performance": None, "correctness": None}
    unlimited["workload"]["inputs"]["x"] = {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"}
    traces = (upstream_trace(), wrong, late, unlimited)
    kinds = [("Definition", DEFINITION), ("Solution", SOLUTION), *(("Trace", trace) for trace in traces)]
    names = ("definition", "solution", "passed", "wrong", "late", "workload")
    return [pytest.param(*each, id=name) for each, name in zip(kinds, names, strict=True)]


SEEDS = make_seeds()


VALUES = [
    *(None, True, False, 0, 1, -1, 2**70, 0.5, -0.5, 3.0, [], {}, [""], ["hidden"], [None], {"": 1}, {"type": "const"}),
    {"x": {"shape": None, "dtype": "int8"}},
    *({"type": "const", "value": 8}, {"type": "var"}, {"type": "random"}, {"type": "scalar", "value": True}),
    *("", "x", "1", "..", "lib/../row.h", "/row.h", "kernel.cpp", "kernel.cpp::f", "lib/row.h::run", "a::b::c"),
    *("const", "var", "random", "scalar", "safetensors", "float16", "float8_e4m3fn", "float64", "triton", "torch"),
    *("Infinity", "-Infinity", "NaN", "PASS", *(status.value for status in upstream.EvaluationStatus)),
    *("def run(", "def f(): pass", "async def run(): pass", "if 1:\n  def run(): pass", "hidden %", "hidden = 4", "\0"),
]


def damage(part: Any, whole: Any) -> Iterator[str]:
    """The JSON of a record with each place in a part of it replaced by each of VALUES, and removed."""
    for key in list(part) if isinstance(part, dict) else range(len(part)):
        kept = part[key]
        for part[key] in VALUES:
            yield json.dumps(whole)
        part[key] = kept
        if isinstance(kept, (dict, list)):
            yield from damage(kept, whole)
    for key in list(part) if isinstance(part, dict) else ():
        items = dict(part)
        del part[key]
        yield json.dumps(whole)
        part.clear()
        part.update(items)  # in their order


@pytest.mark.parametrize(("kind", "record"), SEEDS)
def test_damaged_records_are_refused_alike(kind, record):
    before = json.dumps(record)
    for text in damage(record, record):
        assert_same(kind, text)
    assert json.dumps(record) == before
