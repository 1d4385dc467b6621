"""Judge and time kernels of many clients at once: builds and verdicts in parallel, timing in turn on each device."""

import os
import threading
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import psutil

from fib_rmsnorm.errors import FibRmsnormError, InputError, KernelError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device, choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_calls
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import StoppedError
from fib_rmsnorm.schema import Settings, Solution
from fib_rmsnorm.sessions.device_turns import DeviceTurns
from fib_rmsnorm.sessions.evaluator import Evaluator
from fib_rmsnorm.sessions.job import Job, QueueFullError
from fib_rmsnorm.sessions.try_plan import TryPlan, choose_rivals, plan_try
from fib_rmsnorm.sessions.version import Version

_MOST_EVALUATORS = 8
_EVALUATOR_BYTES = 2 << 30
"""The memory that an Evaluator's processes may need: judge, reference, baseline, copy and kernel."""
_MOST_RESULTS = 1000


class Service(AbstractContextManager["Service"]):
    """Takes requests of any number of clients. A context manager; threads share it. Nothing is recorded.

    with Service(Registry.find(), device="cpu") as service:
        jobs = [service.submit("me", file) for file in ("a.py", "b.cpp")]
        print([job.wait().status for job in jobs])
    """

    def __init__(
        self,
        registry: Registry,
        *,
        device: str = "auto",
        settings: Settings | None = None,
        timeout_s: float = 60.0,
        most_queued: int = 32,
        for_one_kernel: bool = False,
        fork_server: ForkServer | None = None,
    ) -> None:
        """`most_queued` requests of a client may wait.

        A service `for_one_kernel` uses only the first device, times the kernel in turn with the fastest registered
        Solution too, not only with the baseline, and leaves its build in the cache, where the next command finds it.
        Raises InputError for an unknown device.
        """
        self.registry = registry
        self.devices: Sequence[Device] = choose_devices(device)[: 1 if for_one_kernel else None]
        self._most_queued = most_queued
        self._most_rivals = 2 if for_one_kernel else 1
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._served: Counter[str] = Counter()
        """When each client was served last, as a number that grows."""
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        """The jobs that wait or run, and the last results."""
        self._running: dict[Job, Evaluator] = {}
        self._idle: list[Evaluator] = []
        """The Evaluators that wait for a request, the last one to finish at the end."""
        self._is_closing = False
        self._rivals: dict[str, Sequence[Solution]] = {}
        self._stack = ExitStack()
        self._forks = fork_server or self._stack.enter_context(ForkServer(ROLES))
        self._threads = []
        config = RunConfig(settings or Settings(), timeout_s, registry.root)
        each = 1 if for_one_kernel else max(1, _count_evaluators(self.devices) // len(self.devices))
        self._turns = [DeviceTurns() for _ in self.devices]
        for place, turns in zip(self.devices, self._turns, strict=True):
            for _ in range(each):
                evaluator = Evaluator(self._forks, place, config, turns, keeps_builds=for_one_kernel)
                self._stack.callback(evaluator.close)
                self._idle.append(evaluator)
                self._threads.append(threading.Thread(target=self._serve, args=(evaluator,), daemon=True))
        for thread in self._threads:
            thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # such as Ctrl-C: nothing is waited for
            self._forks.stop()
        with self._changed:
            self._is_closing = True
            for job in list(self._jobs.values()):
                self.cancel(job)
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._stack.close()

    def submit(
        self,
        client: str,
        source: str | Path | KernelFile,
        *,
        timed: bool = True,
        batch_sizes: Sequence[int] = (),
        on_change: Callable[[Job], None] = lambda _: None,
    ) -> Job:
        """Put a kernel into the queue. Its files are read now, and may change afterwards.

        `on_change` is called in another thread at every new result. Files that cannot be read as a kernel give a
        job that is done. Raises QueueFullError, UnsuitedError if no device can run it, and InputError for a wrong
        argument.
        """
        job = Job(client, on_change, timed=timed)
        self.read(job, source if isinstance(source, KernelFile) else KernelFile(Path(source)), batch_sizes)
        return self.put(job)

    def read(self, job: Job, kernel: KernelFile, batch_sizes: Sequence[int]) -> None:
        """Read the kernel of a job, which `put` puts into the queue. Raises as `submit` does."""
        job.version = Version(1, kernel.file.name, kernel.definition or "", self.devices[0].hardware)
        try:
            definition = choose_definition(self.registry, kernel)
            job.version = replace(job.version, definition=definition.name)
            drafts = draft_calls(self.registry, kernel, definition)
            job.plan = plan_try(self.registry, definition, drafts, tuple(batch_sizes), self.devices[0], kernel.file)
        except KernelError as error:
            message = str(error).replace(f"{kernel.file.parent}/", "")
            job.version = job.version.with_fault(KernelError(message, error.paste))

    def put(self, job: Job) -> Job:
        """Put a job into the queue, unless its kernel is refused already. Raises QueueFullError.

        A version of a `history` is timed in turn with the last correct one, too. The next is put when it is done.
        """
        if job.version and job.version.done:
            if job.history:
                job.history.count += 1
                job.version = replace(job.version, number=job.history.count)
            with self._changed:
                self._jobs[job.id] = job
            self._finish(job)
            return job
        with self._changed:
            waiting = sum(each.client == job.client for each in self._waiting)
            if waiting >= self._most_queued:
                raise QueueFullError(f"{waiting} requests of this client wait already; wait for one, or cancel one")
            self._waiting.append(job)
            self._jobs[job.id] = job
            self._changed.notify_all()
        return job

    def find(self, job_id: str) -> Job:
        """A request by its id. Raises InputError if it is unknown, as long after its end."""
        with self._changed:
            if job_id not in self._jobs:
                raise InputError(f"no request {job_id!r}; the last {_MOST_RESULTS} results are kept")
            return self._jobs[job_id]

    def cancel(self, job: Job) -> None:
        """End a request, even if its kernel hangs; a finished one stays as it is."""
        with self._changed:
            if job.state == "done":
                return
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
                self._finish(job)
            elif job in self._running:
                self._running[job].abandon()
                job.stop()

    def leave(self, client: str) -> None:
        """Cancel all requests of a client that has gone."""
        with self._changed:
            for job in [job for job in self._jobs.values() if job.client == client]:
                self.cancel(job)

    def _serve(self, evaluator: Evaluator) -> None:
        while (job := self._take(evaluator)) is not None:
            try:
                if job.work is not None:
                    with self._turns[0].timing() if job.is_alone else self._turns[0].judging():
                        job.value = job.work(job)
                else:
                    self._evaluate(job, evaluator)
            except (FibRmsnormError, OSError, StoppedError) as error:
                job.error = " ".join(str(error).split()) or "the server ends"
            except Exception as error:  # a fault of ours costs one request
                traceback.print_exc()
                job.error = f"internal error: {error!r}"
            with self._changed:
                del self._running[job]
                self._idle.append(evaluator)  # before its client knows the end, and asks for the next
                self._changed.notify_all()
            self._finish(job)

    def _take(self, evaluator: Evaluator) -> Job | None:
        """The next request, of each client in turn; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing or (self._waiting and self._find_next() is evaluator))
            if self._is_closing:
                return None
            self._idle.remove(evaluator)
            self._changed.notify_all()  # another one is next
            job = min(self._waiting, key=lambda each: self._served[each.client])
            self._waiting.remove(job)
            self._served[job.client] = max(self._served.values(), default=0) + 1
            if len(self._served) > _MOST_RESULTS:
                self._served.clear()
            job.state = "running"
            evaluator.begin()
            self._running[job] = evaluator
        job.on_change(job)
        return job

    def _find_next(self) -> Evaluator:
        """The idle one on the device with the least to do; of several, the last one to finish: it is warm."""
        busy = Counter(evaluator.device for evaluator in self._running.values())
        return min(reversed(self._idle), key=lambda evaluator: busy[evaluator.device])

    def _evaluate(self, job: Job, evaluator: Evaluator) -> None:
        plan, device, history = job.plan, evaluator.device, job.history
        assert plan is not None
        is_timed = job.timed and not plan.is_interpreted
        rivals = self._find_rivals(plan, device) if is_timed else ()
        name = plan.draft.name
        plan, number, before = history.take_up(plan) if history else (plan, 1, None)
        earlier = [before] if before else []
        new = Version(number, name, plan.definition.name, device.hardware, before=before.name if before else "")

        def end_others() -> None:
            workers, builds = (history.workers, history.builds) if history else ([], [])
            # A kernel that is only checked comes between two that are timed: their rivals stay.
            known = rivals or self._rivals.get(new.definition, ())[: self._most_rivals]
            evaluator.keep_only([*workers, *known], builds)

        end_others()
        try:
            for version in evaluator.evaluate(new, plan, timed=job.timed, others=(*earlier, *rivals)):
                job.version = version
                if history:
                    history.latest = version
                job.on_change(job)
        finally:
            end_others()

    def _find_rivals(self, plan: TryPlan, device: Device) -> Sequence[Solution]:
        """The rivals of a kernel, which are kept: to look for them takes as long as to read the registry."""
        name = plan.definition.name
        with self._changed:
            if name not in self._rivals:
                self._rivals[name] = choose_rivals(self.registry, plan.definition, device)
            found = self._rivals[name]
        if plan.draft.name in {rival.name for rival in found}:
            found = choose_rivals(self.registry, plan.definition, device, besides=plan.draft.name)
        return found[: self._most_rivals]

    def _finish(self, job: Job) -> None:
        with self._changed:
            if job.version is not None:
                job.version = replace(job.version, done=True)
            job.state = "done"
            done = [each.id for each in self._jobs.values() if each.state == "done"]
            for old in done[:-_MOST_RESULTS]:
                del self._jobs[old]
        job.finished.set()
        job.on_change(job)


def _count_evaluators(devices: Sequence[Device]) -> int:
    """The number of kernels to build and judge at once: one for each core, as memory allows."""
    room: int = psutil.virtual_memory().available // _EVALUATOR_BYTES
    on_gpus = [device.memory_bytes // (2 * _EVALUATOR_BYTES) for device in devices if device.kind != "cpu"]
    return max(1, min(os.cpu_count() or 1, room, _MOST_EVALUATORS * len(devices), *on_gpus))
