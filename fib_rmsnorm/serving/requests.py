"""The work of a server's tools, in plain Python: requests to the service and look-ups in the registry."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import KERNEL_LANGUAGES, check_language
from fib_rmsnorm.registry import choose_workloads
from fib_rmsnorm.registry.sources.draft import draft_kernel, find_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, definition_line, text_as_file
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service

_LIMIT_S = 300.0
Work = Callable[[Job], object]
"""The work of a request other than to judge a kernel."""
Kernel = tuple[str | None, str | None, str | None, str | None, str | None, bool]
"""source, language, path, definition and call of a kernel, and whether it takes rows at any stride."""


class NewKernel(BaseModel):
    """A kernel to start from."""

    definition: str
    language: str
    kind: str
    """`kernel`: correct; `reference`: correct and slow; `skeleton`: without a body."""
    source: str


class Rankings(BaseModel):
    """The fastest Solutions of the recorded Traces, as in `best --json`."""

    rankings: list[dict[str, Any]]
    notes: list[str]
    """The Traces that are left out."""


class TimedComparison(BaseModel):
    """The comparison of two kernels, as in `compare --json`."""

    comparison: dict[str, Any]


class Requests:
    """The requests to a service, by the Definitions of its registry."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.registry = service.registry
        self._folders = [Path.cwd().resolve(), self.registry.root.resolve()]

    def explain(self, kernel: Kernel, solution: str | None, arch: str | None, batch_sizes: tuple[int, ...]) -> Work:
        """Compile and explain a kernel or a registered Solution."""
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.inspection import COMPILER
        from fib_rmsnorm.inspection.explanation import explain
        from fib_rmsnorm.machine.devices import choose_devices
        from fib_rmsnorm.machine.gpu_models import check_arch
        from fib_rmsnorm.sandbox.fork_server import ForkServer

        if solution is not None:
            wanted, found = find_solution(self.registry, solution, kernel[3], kernel[4])
        else:
            with self.open_kernel(kernel) as file:
                wanted, found = draft_kernel(self.registry, file)
        workloads = choose_workloads(wanted, self.registry.workloads(wanted.name), batch_sizes)
        here, target = choose_devices()[0], check_arch(arch) if arch else None

        def work(job: Job) -> object:
            with ForkServer((COMPILER,)) as forks:
                job.stop = forks.stop
                return explain(forks, wanted, found, workloads, target, RunConfig(timeout_s=_LIMIT_S), here)

        return work

    def compare(
        self, sides: tuple[str, str], definition: str | None, batch_sizes: tuple[int, ...], rounds: int
    ) -> Work:
        """Time two kernels in turn. Each is a registered Solution or a path."""
        from fib_rmsnorm.analysis.comparing.comparison import compare
        from fib_rmsnorm.analysis.reading import record_of
        from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head, run_head_to_head
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.reports.comparison import comparisons_record

        old, new = (str(self._locate(side)) if Path(side).suffix or "/" in side else side for side in sides)
        device = self.service.devices[0]
        match = plan_head_to_head(self.registry, old, new, batch_sizes, device, definition=definition)

        def work(job: Job) -> object:
            found: tuple[list[Any], list[Any]] = ([], [])
            config = RunConfig(timeout_s=_LIMIT_S, dataset=self.registry.root)
            for number, trace in enumerate(run_head_to_head(match, config, rounds), start=1):
                if job.cancelled:
                    return None
                if record := record_of(trace, number):
                    found[trace.solution == match.new.name].append(record)
            return TimedComparison(comparison=comparisons_record(compare(*found, (), in_turn=True)))

        return work

    def rank(self, definition: str | None, batch_sizes: Sequence[int]) -> Rankings:
        """The fastest Solutions by the registry's Traces. Raises InputError if there are none."""
        from fib_rmsnorm.analysis.loading import TraceChoice, read_chosen
        from fib_rmsnorm.analysis.results import find_results
        from fib_rmsnorm.reports.ranking import ranking_records

        name = self.registry.definition(definition).name
        choice = TraceChoice([name], batch_sizes=batch_sizes, believes_all=False)
        notes: list[str] = []
        found = read_chosen([], self.registry.root, choice, notes)
        return Rankings(rankings=ranking_records(find_results(found)), notes=notes)

    def start_kernel(self, language: str, definition: str | None) -> NewKernel:
        """A kernel to start from. Raises InputError for an unknown language or Definition."""
        language = check_language(language, KERNEL_LANGUAGES)
        wanted = self.registry.definition(definition)
        found = make_starting_kernel(wanted, language)
        line = definition_line(KERNEL_LANGUAGES[language].suffixes[0], wanted.name)
        return NewKernel(definition=wanted.name, language=language, kind=found.kind, source=line + found.text)

    @contextmanager
    def open_kernel(self, kernel: Kernel) -> Iterator[KernelFile]:
        """A kernel's file while it is read. Raises InputError unless it is either a text or a path."""
        source, language, path, definition, call, strided = kernel
        if (source is None) == (path is None):
            raise InputError("give either `source` with its `language`, or `path`")
        known = KernelFile(Path(), definition, call, strided)
        if path is not None:
            yield replace(known, file=self._locate(path))
        elif source is not None:
            if language is None:
                raise InputError(f"`source` needs its `language`: {', '.join(KERNEL_LANGUAGES)}")
            with text_as_file(source, language, known) as file:
                yield file

    def _locate(self, name: str) -> Path:
        """The file that a client names. Raises InputError if it lies outside of the folders that it may name."""
        try:
            path = Path(name).resolve()
        except (ValueError, OSError, RuntimeError):  # a null character, or links without end
            raise InputError(f"{name!r} is not a path") from None
        if not any(path.is_relative_to(folder) for folder in self._folders):
            folders = " and ".join(dict.fromkeys(map(str, self._folders)))
            raise InputError(f"{name}: a client may name files in {folders}; send others as `source`")
        return path
