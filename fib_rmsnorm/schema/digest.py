"""Content digests: what "the same solution" means."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel


def digest(model: BaseModel) -> str:
    """Return the SHA-256 (hex) of every field of `model` that decides what it computes.

    Upstream's `Solution.hash()` leaves out destination_passing_style and target hardware, so two different
    builds can share it. Here every field counts except the prose: a better description is not another kernel.
    """
    return hashlib.sha256(model.model_dump_json(exclude={"description"}).encode()).hexdigest()
