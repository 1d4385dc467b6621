"""`fib-rmsnorm bench`."""

from contextlib import ExitStack, closing
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.program import end_interrupted, importing
from fib_rmsnorm.errors import InputError


class Command(TyperCommand):
    """Lets `--ray` stand without an address: typer has no options whose values are optional."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--ray` its value."""
        if "--ray" not in args:
            return super().parse_args(ctx, args)
        from fib_rmsnorm.cluster.connection import LOCAL

        pairs = zip(args, [*args[1:], "-"], strict=True)
        whole = [f"{word}={LOCAL}" if word == "--ray" and after.startswith("-") else word for word, after in pairs]
        return super().parse_args(ctx, whole)


def command(
    output: options.TraceOutput = None,
    definitions: options.DefinitionNamesOrMain = None,
    solutions: options.SolutionNames = None,
    languages: options.Languages = None,
    batch_sizes: options.BatchSizes = None,
    device: options.DeviceName = "auto",
    warmup_runs: Annotated[
        int, typer.Option(min=0, max=10_000, help="Untimed calls before timing, for at most 0.15 s.")
    ] = 10,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Timed calls per trial; default: until the median is known within 1%."),
    ] = None,
    num_trials: Annotated[int, typer.Option(min=1, max=1_000, help="Minimum number of trials.")] = 4,
    l2: Annotated[
        options.L2, typer.Option("--l2", help="State of the GPU's L2 cache before each timed call.")
    ] = options.L2.COLD,
    context: Annotated[
        options.Context,
        typer.Option("--context", help="graph: also the cost of a call between others in a CUDA graph."),
    ] = options.Context.ISOLATED,
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    timeout: options.TimeLimit = 120.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip evaluations that already passed; retry failures.")
    ] = False,
    against: Annotated[
        str | None,
        options.name_option(
            "--against",
            "Also compare all outputs with those of this Solution, or of the one of each Definition that a glob names;"
            " shown by report --against.",
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
            callback=options.refuse_empty,
            help="With --ray: models of GPU, such as H100,H200, to bench on each; default: the cluster's only one.",
        ),
    ] = None,
    root: options.Root = None,
    json: Annotated[bool, typer.Option("--json", help="Print each Trace as a line of JSON when it is done.")] = False,
) -> int:
    """Evaluate Solutions on Workloads and write Traces. Exit code 1 if an evaluation fails, 2 if none can run."""
    if gpus and ray is None:
        raise InputError("--gpus chooses devices of a Ray cluster: add --ray, or name a device with --device")
    if ray is not None:
        from fib_rmsnorm.cluster.connection import require_ray

        require_ray()
    elif require_sandbox:
        from fib_rmsnorm.sandbox.confinement import find_gaps

        if gaps := find_gaps():
            raise InputError(f"--require-sandbox: {'; '.join(gaps)}")
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    # The fork server starts before our own imports: it loads torch in parallel. On a cluster, each actor has one.
    with ExitStack() as stack:
        stack.push(_say_how_to_go_on)
        fork_server = stack.enter_context(ForkServer(ROLES)) if ray is None else None
        with importing():
            from fib_rmsnorm.cli.progress import ProgressBar

        bar = stack.enter_context(ProgressBar())
        with importing():
            from fib_rmsnorm.cli.bench_printer import BenchPrinter
            from fib_rmsnorm.cluster.connection import open_cluster
            from fib_rmsnorm.evaluation.bench import BenchOptions, bench, open_local_devices
            from fib_rmsnorm.evaluation.plan import Selection
            from fib_rmsnorm.languages import LANGUAGES, check_language
            from fib_rmsnorm.registry import Registry

        registry = Registry.find(root)
        chosen = BenchOptions(
            selection=Selection(
                definitions=options.split_definitions(definitions, registry.root, solutions),
                solutions=options.split_names(solutions),
                languages=tuple(check_language(each, LANGUAGES) for each in options.split_names(languages)),
                batch_sizes=options.split_sizes(batch_sizes),
                against=against or "",
            ),
            settings=options.make_settings(
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
        if ray is None:
            devices = open_local_devices(registry, chosen, fork_server)
        else:
            devices = open_cluster(chosen, ray, options.split_names(gpus), require_sandbox=require_sandbox)
        printer = BenchPrinter(registry.root, bar, as_json=json)
        with closing(bench(registry, chosen, devices)) as events:
            for event in events:
                printer.show(event)
        return printer.finish(output)


def _say_how_to_go_on(ended_by: type[BaseException] | None, *_: object) -> None:
    if ended_by is KeyboardInterrupt:
        end_interrupted("; finished evaluations are saved: continue with --resume")
