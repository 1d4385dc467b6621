"""Digests: what "the same solution" means, and a short name for every evaluation."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from fib_rmsnorm.schema.trace import Trace


def digest(model: BaseModel) -> str:
    """Return the SHA-256 (hex) of every field of `model` that decides what it computes.

    Upstream's `Solution.hash()` leaves out destination_passing_style and target hardware, so two different
    builds can share it. Here every field counts except the prose: a better description is not another kernel.
    """
    return hashlib.sha256(model.model_dump_json(exclude={"description"}).encode()).hexdigest()


def trace_id(trace: Trace) -> str:
    """Return the 8 hex digits by which people name an evaluation.

    They come from what was evaluated, where and when, not from the whole record, so a Trace keeps its id when
    the schema gains fields.
    """
    evaluation = trace.evaluation
    identity = [trace.definition, trace.solution or "", trace.workload.uuid]
    if evaluation is not None:
        identity += [evaluation.environment.hardware, evaluation.timestamp]
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:8]
