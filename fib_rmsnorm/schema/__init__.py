"""The FlashInfer Trace schema, extended by what a trustworthy measurement needs.

The models are flashinfer-bench's, written again because its package imports torch, which takes seconds. A test compares
them with the originals: their fields, what they refuse and why, and what they write. `validate` reads every record by
the originals too.
"""

from fib_rmsnorm.schema.build_spec import BuildSpec, SupportedBindings, SupportedLanguages
from fib_rmsnorm.schema.check import Check
from fib_rmsnorm.schema.checked import CheckedDefinition
from fib_rmsnorm.schema.definition import AxisConst, AxisVar, Definition, TensorSpec
from fib_rmsnorm.schema.digest import digest, trace_id
from fib_rmsnorm.schema.in_place import check_in_place
from fib_rmsnorm.schema.judged_case import (
    AGAINST,
    CaseKind,
    Difference,
    JudgedCase,
    Peer,
    Tolerance,
    UlpStatistics,
    list_cases,
)
from fib_rmsnorm.schema.measurement import Ceiling, Chain, Clocks, KernelLaunch, Performance, Settings
from fib_rmsnorm.schema.solution import Solution, SourceFile
from fib_rmsnorm.schema.trace import REFERENCE, Correctness, Environment, Evaluation, EvaluationStatus, Seal, Trace
from fib_rmsnorm.schema.workload import RandomInput, SafetensorsInput, ScalarInput, Workload

__all__ = [
    "AGAINST",
    "REFERENCE",
    "AxisConst",
    "AxisVar",
    "BuildSpec",
    "CaseKind",
    "Ceiling",
    "Chain",
    "Check",
    "CheckedDefinition",
    "Clocks",
    "Correctness",
    "Definition",
    "Difference",
    "Environment",
    "Evaluation",
    "EvaluationStatus",
    "JudgedCase",
    "KernelLaunch",
    "Peer",
    "Performance",
    "RandomInput",
    "SafetensorsInput",
    "ScalarInput",
    "Seal",
    "Settings",
    "Solution",
    "SourceFile",
    "SupportedBindings",
    "SupportedLanguages",
    "TensorSpec",
    "Tolerance",
    "Trace",
    "UlpStatistics",
    "Workload",
    "check_in_place",
    "digest",
    "list_cases",
    "trace_id",
]
