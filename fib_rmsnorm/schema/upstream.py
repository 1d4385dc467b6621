"""flashinfer-bench's models, imported without torch.

The modules of its models need only pydantic. The `__init__` of their two packages imports everything, with torch
and FlashInfer, which takes seconds. So each `__init__` runs when a name of its package is first used: the first
`from flashinfer_bench.data import TraceSet` finds what it always finds, with these same classes.
"""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _LatePackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        try:
            self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        except BaseException:
            self.__class__ = _LatePackage
            raise
        return getattr(self, name)


def _import_late(name: str) -> None:
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        return
    package = module_from_spec(spec)
    package.__class__ = _LatePackage
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)


_import_late("flashinfer_bench")
_import_late("flashinfer_bench.data")

from flashinfer_bench.data.definition import AxisConst, AxisVar, Definition, DType, TensorSpec  # noqa: E402
from flashinfer_bench.data.solution import (  # noqa: E402
    BuildSpec,
    Solution,
    SourceFile,
    SupportedBindings,
    SupportedLanguages,
)
from flashinfer_bench.data.trace import (  # noqa: E402
    Correctness,
    Environment,
    Evaluation,
    EvaluationStatus,
    Performance,
    Trace,
)
from flashinfer_bench.data.workload import RandomInput, SafetensorsInput, ScalarInput, Workload  # noqa: E402
