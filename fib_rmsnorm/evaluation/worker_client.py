"""The process of a worker as the scheduler sees it: requests to it, its time limit, and how its failures are told."""

import time
from dataclasses import dataclass, field

from fib_rmsnorm.building.cache import require_room
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker.worker_messages import Call
from fib_rmsnorm.sandbox.asking import Answer, Request, ask
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.process import NoAnswerError, Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import (
    BuildSpec,
    Correctness,
    Definition,
    EvaluationStatus,
    Solution,
    SourceFile,
    SupportedLanguages,
)

_REFERENCE = "reference.py"
_OF_GUARDED = ": in this call its inputs are guarded, perhaps it reads beyond one or writes to one"


def reference_solution(definition: Definition) -> Solution:
    """The Definition's reference as a Solution, so that it is built, timed and limited like any other."""
    return Solution(
        name=f"{definition.name}.reference",
        definition=definition.name,
        author="reference",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point=f"{_REFERENCE}::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path=_REFERENCE, content=definition.reference)],
    )


class EvaluationFailedError(Exception):
    """An evaluation ended with a status other than PASSED."""

    def __init__(
        self,
        status: EvaluationStatus | str,
        message: str,
        correctness: Correctness | None = None,
        *,
        is_cheat: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = EvaluationStatus(status)
        self.correctness = correctness
        self.is_cheat = is_cheat
        """Whether the Solution did what an honest one has no reason to do."""

    def with_log(self, log: str) -> "EvaluationFailedError":
        """The same failure, with the output of the process below its message."""
        text = "\n".join(part for part in (str(self), log.strip()) if part)
        return EvaluationFailedError(self.status, text, self.correctness, is_cheat=self.is_cheat)


@dataclass
class WorkerClient:
    """A process that runs a Solution's code, and how long it may still take to answer requests."""

    process: Process
    config: RunConfig
    definition: Definition
    is_interpreted: bool = False
    """Whether Triton's interpreter runs it."""
    strided: dict[str, int] = field(default_factory=dict)
    """The inputs that it takes at any strides, each with the stride of its last axis."""
    compiles_when_called: bool = False
    """Whether a call may compile kernels, or is interpreted."""
    build_s: float = 0.0
    limit_s: float | None = None
    """The time limit of all answers, in seconds; None for the run's."""
    left_s: float = field(init=False)
    """Seconds that are left of it. The judge's time does not count."""

    def __post_init__(self) -> None:
        self.left_s = self.config.timeout_s if self.limit_s is None else self.limit_s

    def ask(self, request: Request, kind: type[Answer]) -> Answer:
        """Ask for an answer of type `kind`.

        Raises EvaluationFailedError with the status that fits the failure, or InputError if a disk is full.
        """
        started, limit_s = time.monotonic(), self.limit_s or self.config.timeout_s
        if isinstance(request, Call) and not self.compiles_when_called:
            limit_s = self.config.call_limit(limit_s)
        left_s = min(self.left_s, limit_s)
        try:
            return ask(self.process, request, kind, started + left_s, self.config.memory_limit_bytes)
        except ProcessTimeoutError:
            late = f"{request.doing}: timed out after {limit_s:.4g} s"
            raise EvaluationFailedError("TIMEOUT", late) from None
        except (NoAnswerError, RefusalError) as error:
            require_room()
            if isinstance(error, RefusalError):
                why = f"{request.doing}: {error}"
                raise EvaluationFailedError(error.status, why, is_cheat=error.is_cheat) from None
            guarded = isinstance(error, ProcessDiedError) and isinstance(request, Call) and request.guarded
            where = _OF_GUARDED if guarded else ""
            raise EvaluationFailedError("RUNTIME_ERROR", f"{request.doing}: the process {error}{where}") from None
        finally:
            self.left_s -= time.monotonic() - started
