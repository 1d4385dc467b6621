"""The connection to the judge process of one device: it compares the outputs that a worker transferred."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, PossibleMistake, Verdict
from fib_rmsnorm.evaluation.judging.reference_client import ReferenceClient, ReferenceFailedError
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import WorkerClient
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import InvalidAnswerError, RefusedError, ask
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import Definition, Settings, Workload


@dataclass(frozen=True)
class Subject:
    """What outputs are judged by: the exact answer of a recognised operator, or else the Definition's reference."""

    definition: Definition
    workload: Workload
    recognition: Recognition | None


class Comparer:
    """Asks the judge process, and replaces it if it dies. Threads may share it and take turns."""

    def __init__(
        self,
        fork_server: ForkServer,
        device: Device,
        config: RunConfig,
        find_reference: Callable[[Definition], WorkerClient],
    ) -> None:
        self._fork_server = fork_server
        self._reference = ReferenceClient(find_reference, config.timeout_s)
        self._device = device
        self._config = config
        self._judge: Process | None = None
        self._lock = threading.Lock()

    def compare(self, subject: Subject, worker: WorkerClient, **which: Any) -> Verdict:
        """Compare the outputs of a worker's last call; `which` says which call it was.

        Raises ReferenceFailedError if the expected outputs cannot be computed.
        """
        request = self._make_request(subject, worker, self._config.settings, **which)
        with self._lock:
            judge = self._require_judge()
            reference = self._reference.call(request, judge)
            if reference is None:
                return self._ask(judge, request)
            try:
                return self._ask(judge, request.model_copy(update={"expected_path": reference.outputs_path}))
            finally:
                reference.clear_outputs()

    def compare_reference(self, subject: Subject, worker: WorkerClient, case: int) -> Verdict:
        """Compare the outputs of the reference itself, which `worker` holds, with the operator's exact answer.

        The tolerances are those of the dtypes, whatever the run's settings are.
        """
        unexplained: dict[str, list[PossibleMistake]] = {name: [] for name in subject.definition.outputs}
        request = self._make_request(subject, worker, Settings(), case=case, suspects=unexplained)
        with self._lock:
            self._reference.forget()  # the judge keeps the expected outputs of one Workload
            return self._ask(self._require_judge(), request)

    def _make_request(self, subject: Subject, worker: WorkerClient, settings: Settings, **which: Any) -> Compare:
        return Compare(
            definition=subject.definition,
            recognition=subject.recognition,
            workload=subject.workload,
            device=self._device.name,
            dataset=self._config.dataset,
            settings=settings,
            outputs_path=worker.process.outputs_path,
            **which,
        )

    def _require_judge(self) -> Process:
        if self._judge is None or not self._judge.alive:
            self._judge = self._fork_server.spawn(JUDGE)
        return self._judge

    def _ask(self, judge: Process, request: Compare) -> Verdict:
        try:
            return ask(judge, request, Verdict, time.monotonic() + self._config.timeout_s)
        except ProcessTimeoutError:
            raise ReferenceFailedError(f"the judge timed out after {self._config.timeout_s:g} s") from None
        except (ProcessDiedError, InvalidAnswerError) as error:
            raise ReferenceFailedError(f"the judge {error}: {judge.take_log()}") from None
        except RefusedError as refused:
            raise ReferenceFailedError(f"the judge failed: {refused}") from None
