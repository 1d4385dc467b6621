"""Trace and Evaluation: what was evaluated where, and whether it was correct.

All fields that flashinfer-bench's models lack are optional, and those ignore them, so Traces load in both directions.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fib_rmsnorm.schema.field_types import NonEmptyString
from fib_rmsnorm.schema.measurement import Performance, Settings
from fib_rmsnorm.schema.workload import Workload

REFERENCE = "reference"
"""The `judged_by` of outputs that were compared with those of the Definition's reference alone."""


class Correctness(BaseModel):
    """The largest errors of a Solution's outputs, and in `extra` what is known of each case."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    max_relative_error: float = 0.0
    max_absolute_error: float = 0.0
    extra: dict[str, Any] | None = None

    @field_validator("max_relative_error", "max_absolute_error")
    @classmethod
    def _check_error(cls, error: float) -> float:
        if error < 0:
            raise ValueError("must be non-negative or NaN")
        return error


class Environment(BaseModel):
    """Where an evaluation ran."""

    hardware: NonEmptyString
    """The device's model."""
    libs: dict[str, str] = Field(default_factory=dict)
    """Versions of libraries by name."""


class Seal(BaseModel):
    """Who recorded an evaluation: a code over its Trace, by a key of one user on one machine."""

    key: str
    """The key's name, which does not tell the key."""
    code: str
    """HMAC-SHA256 (hex) over the Trace without its seal."""


class EvaluationStatus(str, Enum):
    """How an evaluation ended."""

    PASSED = "PASSED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"


_JUDGED = (EvaluationStatus.PASSED, EvaluationStatus.INCORRECT_NUMERICAL)


class Evaluation(BaseModel):
    """How a Solution did on a Workload. The status decides whether there are `correctness` and `performance`."""

    status: EvaluationStatus
    environment: Environment
    timestamp: NonEmptyString
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None
    settings: Settings | None = None
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    judged_by: str | None = None
    """The operator by whose exact answer and hard inputs the outputs were judged; REFERENCE if the Definition's
    reference alone judged them, on the Workload's inputs. None if there were no outputs to judge."""
    build_flags: list[str] | None = None
    """The flags with which the C++ compiler built the Solution; None for other languages."""
    parameters: dict[str, int] | None = None
    """The launch parameters of a tuned Solution, if `tune` measured it."""
    multiprocessors: int | None = None
    """The GPU's number of multiprocessors, if `tune` measured the Solution."""
    seal: Seal | None = None

    @model_validator(mode="after")
    def _check_parts(self) -> Evaluation:
        wanted = {"correctness": self.status in _JUDGED, "performance": self.status is EvaluationStatus.PASSED}
        for part, must in wanted.items():
            if (getattr(self, part) is not None) != must:
                raise ValueError(f"Evaluation must {'' if must else 'not '}include {part} when status is {self.status}")
        return self


class Trace(BaseModel):
    """An evaluation of a Solution on a Workload; without these two, the record of a Workload."""

    definition: NonEmptyString
    workload: Workload
    solution: str | None = None
    evaluation: Evaluation | None = None

    def is_workload_trace(self) -> bool:
        """Whether this is the record of a Workload."""
        return self.solution is None and self.evaluation is None
