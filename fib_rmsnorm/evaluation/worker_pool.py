"""The workers of a device: one for each Solution, which is built once and reused, and replaced if it dies."""

import os
import re
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fib_rmsnorm.building.cache import cache_variables, drop_failed_build, require_room, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import WORKER
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.spare_worker import SpareWorker
from fib_rmsnorm.evaluation.tensors.case_numbers import make_few_rows
from fib_rmsnorm.evaluation.worker.worker_messages import Build, Built, GetReady, Prepare
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient, reference_solution
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import TWO_CONNECTIONS, Device
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.tensor_files import tensor_files
from fib_rmsnorm.registry.sources.draft import AUTHOR
from fib_rmsnorm.sandbox.asking import DeviceUnusableError, Done, require_device
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.idle_check import find_busy
from fib_rmsnorm.sandbox.process import Process
from fib_rmsnorm.schema import Definition, Solution, Workload, digest, list_strided

# Each worker holds memory, and a context on a GPU. Beyond this number, the one that was idle the longest is ended.
MAX_WORKERS = 24
_CORES_OF_TIMING = 2
"""For the process that is timed and the one that asks it: builds beside them keep to the other cores."""
_COMPILES = re.compile(r"compile|jit|autotun|cutlass|cpp_extension|nvrtc", re.IGNORECASE)  # when it is called
_MAKES_STREAMS = re.compile(r"\bStream\(|StreamCreate|StreamFromPool|CUDAGraph|cudaGraph|cuda\.graph")


class WorkerPool:
    """Starts, finds and replaces workers on one device."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self.fork_server = fork_server
        self.device = device
        self.config = config
        self._workers: OrderedDict[str, WorkerClient] = OrderedDict()
        self._unbuildable: dict[str, EvaluationFailedError] = {}
        self._building: dict[str, Process] = {}
        self._unwanted: set[str] = set()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._answering: set[str] = set()
        self._pinned: set[str] = set()
        self._cores = sorted(os.sched_getaffinity(0))
        self.build_cores = self._cores[_CORES_OF_TIMING:] or self._cores
        """The cores on which workers are built while others are timed."""
        self.most_held = MAX_WORKERS
        self._spare: SpareWorker | None = None
        self._folders: dict[str, Path] = {}
        """The folders of the drafts that a spare worker builds, by their digests."""
        self._ending = ThreadPoolExecutor(1)
        """Waits for the end of processes, one after the other."""

    def __len__(self) -> int:
        return len(self._workers)

    @contextmanager
    def limited(self, timeout_s: float) -> Iterator[None]:
        """Inside, workers that are found have at most this time. Nothing else may use the pool meanwhile."""
        config = self.config
        self.config = replace(config, timeout_s=min(config.timeout_s, timeout_s))
        try:
            yield
        finally:
            self.config = config

    def find(self, definition: Definition, solution: Solution, *, ahead: Workload | None = None) -> WorkerClient:
        """The worker that holds the built Solution, with the whole time limit.

        `ahead` of the judging of this Workload, others may be timed: a new worker keeps to the cores for builds until
        it is found again without, and no other is ended to make room. It loads what the cases need too. Raises
        EvaluationFailedError if it does not build, and DeviceUnusableError if nothing runs on the device.
        """
        key = digest(solution)
        with self._locks[key]:  # several threads may need it: it is built once
            if key in self._unbuildable:
                raise self._unbuildable[key].with_log("")
            found = self._workers.get(key)
            if found is None or not found.process.alive:
                try:
                    found = self._workers[key] = self._start(key, definition, solution, ahead=ahead)
                except EvaluationFailedError as failure:
                    self._unbuildable[key] = failure.with_log("")  # a copy, without the frames of its traceback
                    raise
                while len(self._workers) > self.most_held:
                    self._workers.popitem(last=False)[1].process.kill()
            else:
                self._workers.move_to_end(key)
            if ahead is None and key in self._pinned:
                self._pinned.discard(key)
                _keep_to_cores(found.process.pid, self._cores)
            return replace(found, config=self.config)

    def find_reference(self, definition: Definition) -> WorkerClient:
        """The worker that holds the Definition's reference; raises as `find`."""
        return self.find(definition, reference_solution(definition))

    @contextmanager
    def answering(self, solution: Solution) -> Iterator[None]:
        """Inside, this Solution's worker answers a request beside the trials of others, so it may be busy."""
        key = digest(solution)
        self._answering.add(key)
        try:
            yield
        finally:
            self._answering.discard(key)

    def count_unbuilt(self, solutions: Iterable[Solution]) -> int:
        """The number of Solutions that no live worker holds, without those that are known not to build."""
        built = {key for key, worker in list(self._workers.items()) if worker.process.alive} | self._unbuildable.keys()
        return sum(digest(solution) not in built for solution in solutions)

    def end_finished(self, definitions: Collection[str]) -> None:
        """End the workers of all Definitions but these."""
        self._end([key for key, worker in list(self._workers.items()) if worker.definition.name not in definitions])

    def end_others(self, kept: Iterable[Solution]) -> None:
        """End the workers of all Solutions but these, and forget which of the others did not build.

        A worker that `end` has killed may still be among the workers of these: it ends too, and a later `find` starts
        another.
        """
        keys = set(map(digest, kept)) - self._unwanted
        self._end(self._workers.keys() - keys)
        self._unbuildable = {key: why for key, why in self._unbuildable.items() if key in keys}
        self._unwanted.clear()

    def _end(self, keys: Iterable[str]) -> None:
        """Kill workers, and wait for none: one that holds a GPU takes 0.1 s to die."""
        for key in keys:
            if (worker := self._workers.pop(key, None)) is not None:  # another thread may have ended it
                worker.process.signal_kill()
                self._ending.submit(worker.process.kill)

    def start_spare(self, wanted: GetReady) -> None:
        """Start a worker for the next draft in the background, if there is none yet and drafts have a folder."""
        if self.config.drafts is not None and self._spare is None:

            def spawn(folder: Path) -> Process:
                process = self._spawn(folder, wanted.definition, TWO_CONNECTIONS)
                _keep_to_cores(process.pid, self.build_cores)
                return process

            self._spare = SpareWorker(self.device, wanted, self.config.drafts, spawn)

    def keep_folders(self, solutions: Iterable[Solution]) -> set[Path]:
        """The folders in which these drafts and the next one are built. Those of others are forgotten."""
        kept = {key: self._folder(key, each) for key, each in ((digest(each), each) for each in solutions)}
        self._folders = {key: folder for key, folder in self._folders.items() if key in kept}
        return {*kept.values(), *([self._spare.folder] if self._spare else [])}

    def close(self) -> None:
        """End all workers."""
        self.end_others([])
        if self._spare:
            self._spare.take("")
        self._ending.shutdown()

    def end(self, solution: Solution) -> None:
        """Kill a Solution's worker, which may be building or not have started. Another thread may wait for its answer.

        `end_others` lets it start again.
        """
        key = digest(solution)
        self._unwanted.add(key)
        held = self._workers.get(key)
        for process in (held.process if held else None, self._building.get(key)):
            if process is not None:
                process.signal_kill()

    def end_busy_workers(self, asked: WorkerClient | None = None) -> dict[Process, str]:
        """End the workers that are not idle although no request is running, and say what each of them does.

        While requests to others may run: only `asked`.
        """
        unasked = (worker for key, worker in list(self._workers.items()) if key not in self._answering)
        held = [asked] if asked else unasked
        processes = {worker.process.pid: worker.process for worker in held if worker.process.alive}
        found = {processes[pid]: what for pid, what in find_busy(processes).items()}
        for process in found:
            process.kill()
        return found

    def _start(self, key: str, definition: Definition, solution: Solution, *, ahead: Workload | None) -> WorkerClient:
        process, connections = None, {} if _has(_MAKES_STREAMS, solution) else TWO_CONNECTIONS
        if connections and solution.author == AUTHOR and key not in self._folders:
            spare, self._spare = self._spare, None
            if spare and (process := spare.take(definition.name)):
                self._folders[key] = spare.folder
                self._pinned.add(key)
        request = Build(
            definition=definition,
            solution=solution,
            device=self.device.name,
            dataset=self.config.dataset,
            cache=self._folder(key, solution),
        )
        interpreted = is_interpreted(solution, self.device)
        try:
            process = process or self._spawn(request.cache, definition, connections, interpreted)
            return self._build(key, request, process, interpreted, ahead=ahead)
        except DeviceUnusableError:
            if ahead is not None:
                raise
            # The workers of other Definitions hold memory of the device, which evaluates one at a time.
            self.end_finished({definition.name})
            self._ending.submit(bool).result()  # until they are gone, with what they held of it
            process = self._spawn(request.cache, definition, connections, interpreted)
            return self._build(key, request, process, interpreted, ahead=None)

    def _folder(self, key: str, solution: Solution) -> Path:
        """The folder for a Solution's builds."""
        if folder := self._folders.get(key):
            return folder
        return solution_cache(solution, self.config.drafts if solution.author == AUTHOR else None)

    def _spawn(
        self, cache: Path, definition: Definition, connections: dict[str, str], interpreted: bool = False
    ) -> Process:
        """Start a worker that may read the tensors that the Definition's Workloads name."""
        require_room()
        dataset = self.config.dataset
        tensors = tensor_files(Registry(dataset).workloads(definition.name), dataset) if dataset else []
        # Triton reads its variable when it is imported.
        variables = {**cache_variables(cache), **connections, **({"TRITON_INTERPRET": "1"} if interpreted else {})}
        readable = [*toolchain_paths(), *tensors]
        return self.fork_server.spawn(WORKER, variables, readable=readable, writable=[cache])

    def _build(
        self, key: str, request: Build, process: Process, interpreted: bool, *, ahead: Workload | None
    ) -> WorkerClient:
        """Have a new worker build a Solution.

        Raises EvaluationFailedError, InputError or DeviceUnusableError, and then the process has ended.
        """
        if ahead is not None:
            self._pinned.add(key)
            _keep_to_cores(process.pid, self.build_cores)
        strided = list_strided(request.solution.spec, request.definition, request.solution.sources)
        has_compiler = LANGUAGES[request.solution.spec.language.value].module is not None
        compiles = interpreted or has_compiler or _has(_COMPILES, request.solution)
        worker = WorkerClient(process, self.config, request.definition, interpreted, strided, compiles)
        self._building[key] = process
        if key in self._unwanted:
            process.signal_kill()
        try:
            # By a request of its own: no code of a Solution can forge the answer yet.
            prepare = Prepare(device=request.device, solution=request.solution, cache=request.cache)
            require_device(process, self.device, lambda _, kind: worker.ask(prepare, kind))
            if ahead is not None and (ready := self._make_ready(request.definition, ahead, request.solution)):
                worker.ask(ready, Done)
            worker.build_s = worker.ask(request, Built).build_s
        except (EvaluationFailedError, InputError) as failure:
            process.kill()
            if isinstance(failure, InputError):
                raise
            drop_failed_build(request.cache)
            raise failure.with_log(process.take_log()) from None
        finally:
            del self._building[key]
        return worker

    def _make_ready(self, definition: Definition, workload: Workload, solution: Solution) -> GetReady | None:
        """The request for all cases on a few rows; None if the operator is not known by its source.

        The first case of a kind loads kernels of torch: 0.4 s for all on a GPU.
        """
        if (recognition := recognise_source(definition)) is None:
            return None
        return GetReady(
            device=self.device.name,
            language=solution.spec.language.value,
            definition=definition,
            dataset=self.config.dataset,
            workload=make_few_rows(definition, recognition, workload),
            recognition=recognition,
        )


def _has(pattern: re.Pattern[str], solution: Solution) -> bool:
    return any(pattern.search(source.content) for source in solution.sources)


def _keep_to_cores(pid: int, cores: Collection[int]) -> None:
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
