"""The FlashInfer Trace schema: flashinfer-bench's models, with what a trustworthy measurement needs beside them."""

from fib_rmsnorm.schema.measurement import Ceiling, Chain, Clocks, Performance, Settings
from fib_rmsnorm.schema.solution import (
    BuildSpec,
    CheckedDefinition,
    Definition,
    Solution,
    SupportedLanguages,
    check_spec,
    list_strided,
)
from fib_rmsnorm.schema.trace import (
    AGAINST,
    REFERENCE,
    CaseKind,
    Check,
    Difference,
    Evaluation,
    JudgedCase,
    Peer,
    Recurrence,
    Seal,
    Trace,
    UlpStatistics,
    digest,
    list_cases,
)
from fib_rmsnorm.schema.upstream import (
    AxisConst,
    AxisVar,
    Correctness,
    DType,
    Environment,
    EvaluationStatus,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    SourceFile,
    SupportedBindings,
    TensorSpec,
    Workload,
)
