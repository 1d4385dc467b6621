"""Digests that identify the content of records, and short ids of evaluations."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from fib_rmsnorm.schema.trace import Trace


def digest(model: BaseModel) -> str:
    """Return the SHA-256 (hex) of every field of `model` except its description.

    Upstream's `Solution.hash()` omits destination_passing_style and target hardware, so two different builds can
    share it. A new description does not make another kernel.
    """
    return hashlib.sha256(model.model_dump_json(exclude={"description"}).encode()).hexdigest()


def trace_id(trace: Trace) -> str:
    """Return the 8 hex digits that users name an evaluation by.

    They depend on what was evaluated, where and when, and not on the whole record, so a Trace keeps its id when the
    schema gains fields.
    """
    evaluation = trace.evaluation
    identity = [trace.definition, trace.solution or "", trace.workload.uuid]
    if evaluation is not None:
        identity += [evaluation.environment.hardware, evaluation.timestamp]
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:8]
