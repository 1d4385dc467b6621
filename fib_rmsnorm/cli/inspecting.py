"""`fib-rmsnorm explain` and `profile`: what compiled code says, and what NVIDIA's ncu counts."""

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import answer, note, print_json, say


def explain(
    solution: options.SolutionOrKernel,
    definition: options.KernelDefinition = None,
    call: options.CallText = None,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="sm_90,gfx942", help="GPU architectures, side by side; default: this machine's, else sm_90."
        ),
    ] = None,
    batch_sizes: options.BatchSizes = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Explain a Solution from its compiled code. Shows registers, memory accesses, occupancy, waves; needs no GPU.

    Triton also compiles for AMD's gfx90a, gfx942 and gfx950.
    """
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.inspection import COMPILER
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes = options.split_sizes(batch_sizes)
    # The fork server starts before our own imports: it loads torch in parallel.
    with ForkServer((COMPILER,)) as fork_server, ProgressBar() as bar:
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.inspection.explanation import explain as explain_code
        from fib_rmsnorm.machine.devices import choose_devices, gpu_arch
        from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH, check_arch
        from fib_rmsnorm.registry import Registry, choose_workloads
        from fib_rmsnorm.registry.sources.draft import find_solution
        from fib_rmsnorm.reports.explanation import describe_explanations
        from fib_rmsnorm.reports.text.console import Folded

        targets = dict.fromkeys(map(check_arch, options.split_names(arch)))
        registry = Registry.find_or_shipped(root)
        wanted, found = find_solution(registry, solution, definition, call)
        workloads = choose_workloads(wanted, registry.workloads(wanted.name), sizes)
        here = choose_devices()[0]
        config, explanations = RunConfig(timeout_s=options.BUILD_LIMIT_S), []
        for target in targets or (gpu_arch(here) or DEFAULT_ARCH,):
            bar.tell(f"compiling for {target}")
            explanations.append(explain_code(fork_server, wanted, found, workloads, target, config, here))
    parts = (Folded(part) if isinstance(part, str) else part for part in describe_explanations(explanations))
    answer(explanations if len(explanations) > 1 else explanations[0], parts, is_json=json)


def profile(
    solution: options.SolutionOrKernel,
    batch_sizes: options.BatchSizes = None,
    definition: options.KernelDefinition = None,
    call: options.CallText = None,
    device: Annotated[str, typer.Option("--device", help="cuda or cuda:N.")] = "auto",
    timeout: options.TimeLimit = 300.0,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Profile one call of a Solution at each batch size (default: 4096) with NVIDIA's ncu: bandwidth, hits, stalls.

    It leaves a report for ncu-ui of each, such as SOLUTION.batch4096.ncu-rep.
    """
    sizes = options.split_sizes(batch_sizes)
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.ncu import profile as run_ncu
    from fib_rmsnorm.registry import Registry, choose_workloads
    from fib_rmsnorm.registry.sources.draft import find_solution
    from fib_rmsnorm.reports.explanation import describe_profile
    from fib_rmsnorm.reports.text.units import assignments, pick

    registry = Registry.find_or_shipped(root)
    wanted, found = find_solution(registry, solution, definition, call)
    place = choose_devices(device)[0]
    records = []
    for workload in choose_workloads(wanted, registry.workloads(wanted.name), sizes, (4096,)):
        axes = "".join(f".{axis}{size}" for axis, size in workload.axes.items())
        report = Path(f"{found.name}{axes}.ncu-rep").absolute()
        kernels = run_ncu(wanted, found, workload, place, report, timeout, registry.root)
        if json:
            names = ("kernel", "grid", "block", "duration_us", "stalls", "bandwidth_gb_per_s")
            measured = [{**each.counters, **pick(each, *names)} for each in kernels]
            known = {"solution": found.name, "definition": wanted.name, "axes": workload.axes}
            records.append({**known, "hardware": place.hardware, "report": str(report), "kernels": measured})
            continue
        say(f"{found.name} for {wanted.name} at {assignments(workload.axes)} on {place.hardware}")
        say(*describe_profile(kernels))
        note(f"\nWrote {report}; open it with: ncu-ui")
    if json:
        print_json(records)
