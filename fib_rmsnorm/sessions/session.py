"""Judge and time version after version of a kernel on one device. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timezone
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import choose_fitting
from fib_rmsnorm.evaluation.try_kernel import DEFAULT_BATCH_SIZES, choose_rivals, plan_try
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import require_meant
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings, Solution, digest
from fib_rmsnorm.sessions.contenders import Contender
from fib_rmsnorm.sessions.evaluator import Evaluator
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.version import Version

_MAX_HISTORY = 1000


class Session(AbstractContextManager["Session"]):
    """Judges and times the versions of a kernel. A context manager; one thread at a time may use it.

        with Session(Registry.find(), "rmsnorm_d4096", device="cpu") as session:
            version = session.measure("kernel.py")
            print(version.status, [timing.latency_ms for timing in version.timings])

    Nothing is recorded in the registry.
    """

    def __init__(
        self,
        registry: Registry,
        definition: str | None = None,
        *,
        batch_sizes: Sequence[int] = (),
        device: str = "auto",
        settings: Settings | None = None,
        timeout_s: float = 60.0,
        fork_server: ForkServer | None = None,
    ) -> None:
        """`definition` defaults to the registry's main one, `batch_sizes` to those of `try`. A `fork_server` that was
        started earlier saves time; the session does not end it. Raises InputError for an unknown Definition or device,
        or for batch sizes that no kernel can be judged at.
        """
        self._registry = registry
        self.definition = registry.definition(definition)
        self.device = choose_devices(device)[0]
        self.history: deque[Version] = deque(maxlen=_MAX_HISTORY)
        """The versions so far, the one that was evaluated last at the end."""
        self._batch_sizes = tuple(batch_sizes)
        choose_fitting(registry, self.definition, self._batch_sizes, DEFAULT_BATCH_SIZES, self.device)
        self._count = 0
        self._latest: Contender | None = None
        self._before: Contender | None = None
        self._rivals: list[Contender] | None = None
        """The baseline, if the registry has one; None until it was looked for."""
        self._stack = ExitStack()
        forks = fork_server or self._stack.enter_context(ForkServer(ROLES))
        self._evaluator = Evaluator(registry, self.device, forks, settings or Settings(), timeout_s)
        self._stack.callback(self._evaluator.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of all versions and remove their builds."""
        self._stack.close()

    def check(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel on every Workload, and time nothing."""
        return _last(self.follow(source, timed=False))

    def measure(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, unless the last check was of the same files; time it on every Workload if it is right."""
        return _last(self.follow(source, judged=not self._is_known(source)))

    def follow(
        self,
        source: str | Path | KernelFile,
        *,
        timed: bool = True,
        judged: bool = True,
        draft: Solution | None = None,
    ) -> Generator[Version]:
        """Judge a kernel and time it. Yields its Version with the verdict, and again after each timing.

        `draft` is what was read of it, if it was. Files that cannot be read as a kernel give a Version too. `abandon`
        ends it from this call on, also before the first Version is asked for. Raises FibRmsnormError if the reference
        fails.
        """
        self._evaluator.begin()
        return self._follow(KernelFile.of(source), timed=timed, judged=judged, draft=draft)

    def _follow(self, kernel: KernelFile, *, timed: bool, judged: bool, draft: Solution | None) -> Generator[Version]:
        new = Version(
            number=self._count + 1,
            kernel=kernel.file.name,
            definition=self.definition.name,
            hardware=self.device.hardware,
            started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        )
        try:
            draft = draft or self.read(kernel)
            plan = plan_try(
                self._registry, self.definition, draft, self._batch_sizes, self.device, is_timed=False, file=kernel.file
            )
        except InputError as error:
            self._count += 1
            found = {"refused": str(error), "hint": error.paste, "done": True}
            yield self._record(None, new.model_copy(update=found))
            return
        current = self._take_up(draft)
        new = new.model_copy(update={"number": current.number, "kernel": draft.name})
        rivals, before = self._rivals or [], self._before
        for version in self._evaluator.evaluate(
            current, plan, new, timed=timed, judged=judged, rivals=rivals, before=before
        ):
            yield self._record(current, version)

    def read(self, source: str | Path | KernelFile) -> Solution:
        """Read a kernel's files. Raises InputError that says what is wrong with them, or for another Definition's."""
        kernel = KernelFile.of(source)
        require_meant(self._registry, kernel.file, self.definition.name, kernel.definition)
        return draft_solution(self._registry, kernel.file, self.definition, kernel.call, kernel.flags)

    def abandon(self) -> None:
        """From another thread: end the evaluation of the current version, whatever its kernel does."""
        self._evaluator.abandon()

    def _is_known(self, source: str | Path | KernelFile) -> bool:
        """Whether the latest version has the same files, is right, and its worker is there."""
        latest = self._latest
        if latest is None or latest.version is None or not latest.passed:
            return False
        try:
            is_same = digest(self.read(source)) == latest.version.sha256
        except InputError:
            return False
        return is_same and all(admitted.worker.process.alive for admitted in latest.admitted.values())

    def _take_up(self, draft: Solution) -> Contender:
        """Make a draft the current version, and end the workers and builds of those that it replaces."""
        latest = self._latest
        if latest is None or latest.version is None or latest.version.sha256 != digest(draft):
            if latest is not None and latest.passed:
                self._before = latest
            self._count += 1
            latest = Contender(draft.model_copy(update={"name": f"{draft.name}#{self._count}"}), self._count)
        self._latest = latest
        if self._rivals is None:
            self._rivals = list(map(Contender, choose_rivals(self._registry, self.definition, self.device)[:1]))
        # The current one's worker is kept only if it is right: what failed to build may build now.
        kept = [self._before, *self._rivals, latest if latest.passed else None]
        self._evaluator.keep_only(
            (contender.solution for contender in kept if contender),
            (version.solution for version in (self._before, latest) if version),
        )
        return latest

    def _record(self, current: Contender | None, version: Version) -> Version:
        """Put a version at the end of the history, in place of what was known of it."""
        if current is not None:
            current.version = version
        # One that was refused may have come since: it replaces no version.
        known = next((each for each in reversed(self.history) if each.number == version.number), None)
        if known is not None:
            self.history.remove(known)
        self.history.append(version)
        return version


def _last(versions: Iterator[Version]) -> Version:
    """The last of at least one Version."""
    return deque(versions, maxlen=1)[0]
