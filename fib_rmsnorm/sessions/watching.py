"""Follow a kernel's files: judge and time every version that is saved, on one device. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from watchfiles import watch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.plan import choose_fitting
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.definition_choice import require_meant
from fib_rmsnorm.registry.sources.draft import draft_calls
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Settings, Solution, digest
from fib_rmsnorm.sessions.contenders import Contender
from fib_rmsnorm.sessions.evaluator import Evaluator
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.try_plan import DEFAULT_BATCH_SIZES, choose_rivals, plan_try
from fib_rmsnorm.sessions.version import Version

_STEP_MS = 30  # of silence after which a burst of changes is over
_BURST_MS = 400
_LOOK_MS = 500
"""How often it is looked whether the folders are still the same: one that was replaced sends no events."""
_HALF_WRITTEN_S = 0.2
"""The wait for the other half of a file that cannot be read."""


class WatchedFiles(AbstractContextManager["WatchedFiles"]):
    """Watches folders in a thread of its own, and those that are added. A context manager.

    Folders, not files: an editor may replace a file by a new one of the same name.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """`on_change` is called in the thread of the watch before `wait` returns."""
        self._on_change = on_change
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._folders: frozenset[Path] = frozenset()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WatchedFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; what changed before counts as a change."""
        self._folders = frozenset(folders)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a change since the last one that was waited for; return whether there was one."""
        found = self._changed.wait(timeout_s)
        self._changed.clear()
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            self._report()  # what happened while nobody watched
            watched = self._there()
            try:
                for changes in watch(
                    *watched,
                    recursive=False,
                    step=_STEP_MS,
                    debounce=_BURST_MS,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    stop_event=self._stop,
                ):
                    if changes:
                        self._report()
                    if self._there() != watched:
                        break
            except FileNotFoundError:  # a folder went away while its watch began
                self._stop.wait(_STEP_MS / 1e3)

    def _there(self) -> dict[Path, tuple[int, int]]:
        """The folders that exist, each with what tells it from one that replaced it."""
        found = {}
        for folder in self._folders:
            with suppress(OSError):
                status = folder.stat()
                found[folder] = status.st_dev, status.st_ino
        return found

    def _report(self) -> None:
        self._on_change()
        self._changed.set()


class Session(AbstractContextManager["Session"]):
    """Judges and times the versions of a kernel. A context manager; one thread at a time may use it."""

    def __init__(
        self,
        registry: Registry,
        definition: Definition,
        forks: ForkServer,
        *,
        batch_sizes: Sequence[int] = (),
        device: str = "auto",
        settings: Settings,
        timeout_s: float,
    ) -> None:
        """Raises InputError for an unknown device, or for batch sizes that no kernel can be judged at."""
        self._registry = registry
        self.definition = definition
        self.device = choose_devices(device)[0]
        self._batch_sizes = tuple(batch_sizes)
        choose_fitting(registry, self.definition, self._batch_sizes, DEFAULT_BATCH_SIZES, self.device)
        self._count = 0
        self._latest: Contender | None = None
        self._before: Contender | None = None
        self._rivals: list[Contender] | None = None
        """The baseline, if the registry has one; None until it was looked for."""
        self._evaluator = Evaluator(registry, self.device, forks, settings, timeout_s)

    def __exit__(self, *_: object) -> None:
        self._evaluator.close()

    def follow(
        self, kernel: KernelFile, *, timed: bool = True, drafts: Mapping[KernelCall, Solution] | None = None
    ) -> Generator[Version]:
        """Judge a kernel and time it. Yields its Version as `Evaluator.evaluate` does.

        `drafts` are what was read of it, if it was. Files that cannot be read as a kernel give a Version too. `abandon`
        ends it from this call on, also before the first Version is asked for. Raises FibRmsnormError if the reference
        fails.
        """
        self._evaluator.begin()
        return self._follow(kernel, timed=timed, drafts=drafts)

    def _follow(
        self, kernel: KernelFile, *, timed: bool, drafts: Mapping[KernelCall, Solution] | None
    ) -> Generator[Version]:
        try:
            drafts = drafts or self.read(kernel)
            plan = plan_try(self._registry, self.definition, drafts, self._batch_sizes, self.device, file=kernel.file)
        except InputError as error:
            self._count += 1
            new = Version(self._count, kernel.file.name, self.definition.name, self.device.hardware)
            yield new.with_fault(error)
            return
        current = self._take_up(plan.draft)
        rivals, before = self._rivals or [], self._before
        for version in self._evaluator.evaluate(current, plan, timed=timed, rivals=rivals, before=before):
            current.version = version
            yield version

    def read(self, kernel: KernelFile) -> dict[KernelCall, Solution]:
        """Read a kernel's files: a Solution for each call that may be meant, the likeliest first.

        Raises InputError that says what is wrong with them, or for another Definition's.
        """
        require_meant(self._registry, kernel.file, self.definition.name, kernel.definition)
        return draft_calls(self._registry, kernel.file, self.definition, kernel.call, kernel.flags)

    def abandon(self) -> None:
        """From another thread: end the evaluation of the current version, whatever its kernel does."""
        self._evaluator.abandon()

    def _take_up(self, draft: Solution) -> Contender:
        """Make a draft the current version, and end the workers and builds of those that it replaces."""
        latest, content = self._latest, digest(draft)
        if latest is None or latest.version is None or latest.content != content:
            if latest is not None and latest.passed:
                self._before = latest
            self._count += 1
            latest = Contender(draft.model_copy(update={"name": f"{draft.name}#{self._count}"}), self._count, content)
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


class Watch:
    """Follows one kernel."""

    def __init__(self, session: Session, registry: Registry, kernel: KernelFile) -> None:
        self._session = session
        self._solutions = registry.layout.solutions
        self._kernel = kernel
        self._evaluated: str | None = None
        """The content that is being evaluated, or was last."""
        self._lock = threading.Lock()

    def versions(self, *, timed: bool = True) -> Generator[Version]:
        """Evaluate the kernel now and whenever its content changes, without end.

        Yields what `Session.follow` yields. A newer save ends the evaluation of an older one, whatever that does.
        """
        with WatchedFiles(self._abandon_older) as files:
            files.watch(self._folders(None))
            while True:
                files.wait()
                while self._read()[1] is None and files.wait(_HALF_WRITTEN_S):
                    pass
                with self._lock:
                    content, drafts = self._read()
                    if content == self._evaluated:
                        continue
                    self._evaluated = content
                    # Begun under the lock: a save that comes now ends it, and is not forgotten.
                    found = self._session.follow(self._kernel, timed=timed, drafts=drafts)
                files.watch(self._folders(drafts))
                for version in found:
                    yield version
                    if version.abandoned:
                        self._evaluated = None  # if this content comes back, it has no verdict yet

    def _abandon_older(self) -> None:
        """End the evaluation of what is not the kernel's content any more. Other files of its folder change too."""
        with self._lock:
            if self._evaluated is not None and self._read()[0] != self._evaluated:
                self._session.abandon()

    def _read(self) -> tuple[str, Mapping[KernelCall, Solution] | None]:
        """A digest of the kernel's content, and the kernel; None if it cannot be read."""
        try:
            drafts = self._session.read(self._kernel)
        except InputError as error:
            return str(error), None
        return digest(next(iter(drafts.values()))), drafts

    def _folders(self, drafts: Mapping[KernelCall, Solution] | None) -> set[Path]:
        """The folders of the kernel, of the files beside it that it needs, and of the shared ones that it includes."""
        file = self._kernel.file.absolute()
        home = file if file.is_dir() else file.parent
        folders = {home}
        for draft in (drafts or {}).values():
            folders |= {(home / source.path).parent for source in draft.sources}
        with suppress(InputError):
            if (home / MANIFEST).is_file():
                folders |= {(self._solutions / path).parent for path in read_manifest(home / MANIFEST).include}
        return folders
