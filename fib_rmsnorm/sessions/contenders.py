"""The kernels of a session that are timed in turn, and the folder in which they build."""

import fcntl
import os
import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fib_rmsnorm.building.cache import cache_folder, held, making_folders
from fib_rmsnorm.sandbox.fork_server_process import remove_private_folder
from fib_rmsnorm.schema import Solution, digest
from fib_rmsnorm.sessions.try_plan import TryPlan
from fib_rmsnorm.sessions.version import Version


class History:
    """The versions of one kernel, of which a service judges one after the other."""

    def __init__(self) -> None:
        self.count = 0
        """The number of versions, of which some may have been refused."""
        self.latest: Version | None = None
        """The results of the latest version so far; None until it is judged."""
        self._number = 0
        self._content = ""
        """A digest of its files, whatever the right call is."""
        self._before: Solution | None = None

    def take_up(self, plan: TryPlan) -> tuple[TryPlan, int, Solution | None]:
        """Make a kernel the latest version, unless its files are that; the last correct one before it comes third.

        The first is its plan, named after the number of the version, which comes second.
        """
        content = digest(plan.draft)
        if self.latest is None or self._content != content:
            if self.latest is not None and self.latest.passed:
                self._before = self.latest.solution
            self.count += 1
            self.latest, self._number, self._content = None, self.count, content
        name = {"name": f"{plan.draft.name}#{self._number}"}
        named = replace(plan, drafts={call: draft.model_copy(update=name) for call, draft in plan.drafts.items()})
        is_other = self._before is not None and self._before.definition != plan.definition.name
        return named, self._number, None if is_other else self._before

    @property
    def workers(self) -> list[Solution]:
        """The versions whose workers are kept. A latest one that failed is not among them: it may build now."""
        kept = [self._before, self.latest.solution if self.latest and self.latest.passed else None]
        return [solution for solution in kept if solution]

    @property
    def builds(self) -> list[Solution]:
        """The versions whose builds are kept."""
        return [solution for solution in (self._before, self.latest and self.latest.solution) if solution]


class DraftBuilds:
    """A session's own folder in the cache, which is removed with it.

    It is apart from the folder of all builds, where another command may use the builds of equal sources. The lock on
    the folder shows that its session lives; the next session removes the folders of killed ones.
    """

    def __init__(self) -> None:
        sessions = cache_folder().absolute() / "sessions"
        with making_folders():
            sessions.mkdir(parents=True, exist_ok=True)
            with held(sessions):  # else another session could remove our folder before it is locked
                for folder in sessions.iterdir():
                    _remove_if_left(folder)
                self.folder = Path(tempfile.mkdtemp(dir=sessions))
                self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(self._lock, fcntl.LOCK_EX)

    def keep_only(self, folders: Collection[Path]) -> None:
        """Remove all builds but those in these folders."""
        for folder in self.folder.iterdir():
            if folder not in folders:
                remove_private_folder(str(folder))

    def close(self) -> None:
        """Remove the folder."""
        remove_private_folder(str(self.folder))
        os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):  # it may be another user's file
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_private_folder(str(folder))
        finally:
            os.close(descriptor)
