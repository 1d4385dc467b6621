"""`fib-rmsnorm adapt`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli.options import DefinitionNames, Json, Languages, Root, SolutionNames, split_names
from fib_rmsnorm.cli.printing import answer, note
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.text.units import pick

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.adaptation import KernelFolder

_LIMIT_S = 60.0
"""The time limit of a call of a reference."""


def command(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A file in KernelBench's form, of which to make a Definition.", show_default=False
        ),
    ] = None,
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write Solutions from kernels of the same operator for Definitions under other names, such as flashinfer-bench's.

    The kernels are the registry's and those that ship with this tool. What a Definition's reference computes, and its
    constants such as an eps, are found by calling it. A small file calls the kernel in the Definition's order.

    With FILE, which has KernelBench's `class Model`, `get_inputs()` and `get_init_inputs()`: write its Definition and
    Workloads instead. `try` judges a `class ModelNew` by it; both are made after the same seed, as in KernelBench.
    """
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.adaptation import AS_THEY_ARE

    registry = Registry.find(root)
    if file is not None:
        if definitions or solutions or languages:
            raise InputError("FILE makes a Definition: leave out --definitions, --solutions and --languages")
        _define(registry, file, as_json=json)
        return
    kernels = _choose_kernels(registry, split_names(solutions), split_names(languages))
    written, unfit = _adapt(registry, kernels, split_names(definitions))
    tried = [(record["definition"], each) for record in written for each in record["solutions"]]
    is_any_written = any(each["solution"] for _, each in tried)
    if not is_any_written:
        unfit += [f"{definition}: not {each['kernel']}: {each['reason']}" for definition, each in tried]
    if definitions or not is_any_written:
        for line in unfit:
            note(line)
    if not is_any_written and not (unfit and all(line.endswith(AS_THEY_ARE) for line in unfit)):
        raise InputError("no kernel was adapted to a chosen Definition")
    answer(written, _describe(written), is_json=json)


def _describe(written: list[dict[str, Any]]) -> Iterator[str]:
    """The Definitions, and what was written for each."""
    for record in written:
        constants = "".join(f", {name} = {value!r}" for name, value in record["constants"].items())
        yield f"{record['definition']} ({record['operator']}{constants}):"
        for each in record["solutions"]:
            yield f"  {each['solution']}" if each["solution"] else f"  not {each['kernel']}: {each['reason']}"


def _define(registry: Registry, file: Path, *, as_json: bool) -> None:
    """Write the Definition and the Workloads of a file, which a worker runs."""
    from fib_rmsnorm.cli.program import importing
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.registry.sources.model_file import make_definition, make_describing
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    describing = make_describing(file)
    with ForkServer(ROLES) as fork_server:
        with importing():
            from fib_rmsnorm.evaluation.judging.recogniser import call_reference
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.evaluation.worker_pool import WorkerPool
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.schema import Workload

        config, workload = RunConfig(timeout_s=_LIMIT_S), Workload(axes={}, inputs={}, uuid="describing")
        with closing(WorkerPool(fork_server, choose_devices("cpu")[0], config)) as workers:
            described = call_reference(workers, describing, workload)
    definition, workloads = make_definition(file, described)
    known = registry.definitions().get(definition.name)
    if known not in (None, definition):
        raise InputError(f"{definition.name} is another Definition already; rename the file, or remove that one first")
    registry.write_definition(definition)
    path = registry.write_workloads(definition, workloads)
    lines = [
        f"Wrote {registry.layout.definition(definition.op_type, definition.name).relative_to(registry.root)}",
        f"Wrote {path.relative_to(registry.root)} ({len(workloads)} Workloads)",
        f"Next:\n  fib-rmsnorm try SOLUTION.py --definition {definition.name}",
    ]
    answer(definition, lines, is_json=as_json)


def _adapt(
    registry: Registry, kernels: list[KernelFolder], names: tuple[str, ...]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The files that were written for each Definition, and why none of these kernels were for others."""
    from fib_rmsnorm.cli.program import importing
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    chosen = choose("Definition", registry.definitions().values(), lambda each: each.name, names)
    written, unfit = [], []
    with ForkServer(ROLES) as fork_server, ProgressBar(len(chosen)) as bar:
        with importing():
            from fib_rmsnorm.evaluation.judging.recogniser import recognise_all
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.evaluation.worker_pool import WorkerPool
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.registry.sources.adaptation import adapt

        config = RunConfig(timeout_s=_LIMIT_S, dataset=registry.root)
        following = bar.follow("recognising", chosen)
        workers = WorkerPool(fork_server, choose_devices("cpu")[0], config)
        for definition, found in recognise_all(workers, following):
            adapted = found if isinstance(found, str) else adapt(registry, kernels, definition, found)
            if isinstance(adapted, str) or isinstance(found, str):
                unfit.append(f"{definition.name}: {adapted}")
                continue
            solutions = [{**vars(each), "solution": each.solution and each.solution.name} for each in adapted]
            known = {"definition": definition.name, **pick(found, "operator", "constants")}
            written.append({**known, "solutions": solutions})
    return written, unfit


def _choose_kernels(registry: Registry, names: tuple[str, ...], languages: tuple[str, ...]) -> list[KernelFolder]:
    from fib_rmsnorm.languages import LANGUAGES, check_language
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.registry.shipped import shipped_registry
    from fib_rmsnorm.registry.sources.adaptation import find_kernels

    shipped = Registry(shipped_registry())
    found = find_kernels([registry] if shipped.root == registry.root else [registry, shipped])
    found = choose("kernel", found, lambda each: each.manifest.name, names)
    wanted = [check_language(each, LANGUAGES) for each in languages]
    return [each for each in found if not wanted or each.manifest.spec.language.value in wanted]
