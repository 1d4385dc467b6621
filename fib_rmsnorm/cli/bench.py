"""`fib-rmsnorm bench`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.interrupts import hinting, importing
from fib_rmsnorm.cli.options import (
    L2,
    Atol,
    AuthorNames,
    BatchSizes,
    Context,
    DefinitionNamesOrMain,
    DeviceName,
    JsonLines,
    Languages,
    Root,
    Rtol,
    SolutionNames,
    TimeLimit,
    check_output,
    make_settings,
    refuse_empty,
    split_batch_sizes,
    split_definitions,
    split_names,
)
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.cluster.connection import ClusterOptions
    from fib_rmsnorm.evaluation.bench import BenchOptions
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.sandbox.fork_server import ForkServer


class Command(TyperCommand):
    """Lets `--ray` stand without an address: typer has no options whose values are optional."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--ray` its value."""
        if "--ray" not in args:
            return super().parse_args(ctx, args)
        from fib_rmsnorm.cluster.connection import LOCAL

        following = [*args[1:], "-"]
        bare = [word == "--ray" and after.startswith("-") for word, after in zip(args, following, strict=True)]
        whole = [f"--ray={LOCAL}" if alone else word for word, alone in zip(args, bare, strict=True)]
        return super().parse_args(ctx, whole)


_HINT = "; finished evaluations are saved: continue with --resume"


def command(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=check_output, help="Also write this run's Traces to a .json or .jsonl file."
        ),
    ] = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    authors: AuthorNames = None,
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    warmup_runs: Annotated[
        int, typer.Option(min=0, max=10_000, help="Untimed calls before timing, for at most 0.15 s.")
    ] = 10,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Timed calls per trial; default: until the median is known within 1%."),
    ] = None,
    num_trials: Annotated[int, typer.Option(min=1, max=1_000, help="Minimum number of trials.")] = 4,
    l2: Annotated[L2, typer.Option("--l2", help="State of the GPU's L2 cache before each timed call.")] = L2.COLD,
    context: Annotated[
        Context, typer.Option("--context", help="graph: also the cost of a call between others in a CUDA graph.")
    ] = Context.ISOLATED,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: TimeLimit = 120.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip evaluations that already passed; retry failures.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=refuse_empty,
            autocompletion=completion.solution,
            help="Also compare all outputs with those of this Solution, or of the one of each Definition that a glob"
            " names; shown by report --against.",
        ),
    ] = None,
    require_sandbox: Annotated[
        bool,
        typer.Option("--require-sandbox", help="Refuse to run where Solutions cannot be confined entirely (see env)."),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            help="Run on the devices of the Ray cluster at HOST:PORT, or of the one that this machine is in (auto);"
            " without ADDRESS, of a Ray on this machine alone.",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL,...",
            callback=refuse_empty,
            help="With --ray: models of GPU, such as H100,H200, to bench on each; default: the cluster's only one.",
        ),
    ] = None,
    root: Root = None,
    json: JsonLines = False,
) -> int:
    """Evaluate Solutions on Workloads and write Traces. Exit code 1 if an evaluation fails, 2 if none can run."""
    if gpus and ray is None:
        raise InputError("--gpus chooses devices of a Ray cluster: add --ray, or name a device with --device")
    if ray is not None:
        from fib_rmsnorm.cluster.connection import require_ray

        require_ray()
    elif require_sandbox:
        _require_sandbox()
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    # The fork server starts before our own imports: it loads torch in parallel. On a cluster, each actor has one.
    with hinting(_HINT), ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer(ROLES)) if ray is None else None
        from fib_rmsnorm.cli.progress import ProgressBar

        bar = stack.enter_context(ProgressBar())
        with importing():
            from fib_rmsnorm.cluster.connection import ClusterOptions
            from fib_rmsnorm.evaluation.bench import BenchOptions
            from fib_rmsnorm.evaluation.plan import Selection
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.registry.sources.packing import check_languages

        registry = Registry.find(root)
        options = BenchOptions(
            selection=Selection(
                definitions=split_definitions(definitions, registry.root, solutions),
                solutions=split_names(solutions),
                languages=tuple(check_languages(split_names(languages))),
                authors=split_names(authors),
                batch_sizes=split_batch_sizes(batch_sizes),
                against=against or "",
            ),
            settings=make_settings(
                rtol=rtol,
                atol=atol,
                warmup_runs=warmup_runs,
                iterations=iterations,
                num_trials=num_trials,
                l2=l2.value,
                context=context.value,
            ),
            device=device,
            timeout_s=timeout,
            resume=resume,
            output=output,
        )
        cluster = None
        if ray is not None:
            cluster = ClusterOptions(ray, split_names(gpus), require_sandbox=require_sandbox)
        return _run(fork_server, options, registry, bar, cluster, as_json=json)


def _require_sandbox() -> None:
    from fib_rmsnorm.sandbox.confinement import find_gaps

    if gaps := find_gaps():
        raise InputError(f"--require-sandbox: {'; '.join(gaps)}")


def _run(
    fork_server: ForkServer | None,
    options: BenchOptions,
    registry: Registry,
    bar: ProgressBar,
    cluster: ClusterOptions | None,
    *,
    as_json: bool,
) -> int:
    from fib_rmsnorm.cli.bench_printer import BenchPrinter
    from fib_rmsnorm.cluster.cluster_bench import open_cluster
    from fib_rmsnorm.evaluation.bench import bench, open_local_devices

    printer = BenchPrinter(registry.root, bar, as_json=as_json)
    if cluster:
        running = bench(registry, options, open_cluster(registry, options, cluster))
    else:
        running = bench(registry, options, open_local_devices(registry, options, fork_server))
    with closing(running) as events:
        for event in events:
            printer.show(event)
    return printer.finish(options.output)
