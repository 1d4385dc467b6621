"""The FlashInfer Trace schema, extended by what a trustworthy measurement needs.

Only this package imports flashinfer_bench, which imports torch. Commands therefore import it only when they run.
"""

from flashinfer_bench.data import (
    AxisConst,
    AxisVar,
    Definition,
    Environment,
    EvaluationStatus,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    SourceFile,
    SupportedBindings,
    SupportedLanguages,
    TensorSpec,
    Workload,
)

from fib_rmsnorm.schema.build_spec import BuildSpec, Solution
from fib_rmsnorm.schema.check import Check
from fib_rmsnorm.schema.checked import CheckedDefinition
from fib_rmsnorm.schema.digest import digest, trace_id
from fib_rmsnorm.schema.judged_case import CaseKind, JudgedCase, Tolerance, UlpStatistics, list_cases
from fib_rmsnorm.schema.trace import (
    REFERENCE,
    Ceiling,
    Clocks,
    Correctness,
    Evaluation,
    KernelLaunch,
    Performance,
    Settings,
    Trace,
)

__all__ = [
    "REFERENCE",
    "AxisConst",
    "AxisVar",
    "BuildSpec",
    "CaseKind",
    "Ceiling",
    "Check",
    "CheckedDefinition",
    "Clocks",
    "Correctness",
    "Definition",
    "Environment",
    "Evaluation",
    "EvaluationStatus",
    "JudgedCase",
    "KernelLaunch",
    "Performance",
    "RandomInput",
    "SafetensorsInput",
    "ScalarInput",
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
    "digest",
    "list_cases",
    "trace_id",
]
