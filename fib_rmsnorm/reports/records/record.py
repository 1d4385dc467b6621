"""One record in full: a Definition or a Solution."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.holdings import definition_rows, trace_rows
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.machine.capabilities import find_readiness
from fib_rmsnorm.machine.devices import all_devices
from fib_rmsnorm.operators import list_candidates, recognise_source
from fib_rmsnorm.operators.norms.norm_definitions import SHORT_DTYPES
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.selection import NamedWorkload, show_name, title_workloads
from fib_rmsnorm.reports.records.listing import here_text, table_of, with_earlier
from fib_rmsnorm.reports.records.registries import counts_text
from fib_rmsnorm.reports.text.console import Folded
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.units import assignments
from fib_rmsnorm.schema import AxisConst, Definition, Solution, TensorSpec, Trace

_SHORT_DTYPES = {dtype: short for short, dtype in SHORT_DTYPES.items()}


def summarize_definition(definition: Definition) -> str:
    """The name, axes, inputs and outputs in four lines."""
    axes = [
        f"{name} (const: {axis.value})" if isinstance(axis, AxisConst) else f"{name} (var)"
        for name, axis in definition.axes.items()
    ]
    return (
        f"Definition: {definition.name}\n"
        f"  Axes: {', '.join(axes)}\n"
        f"  Inputs: {_describe_tensors(definition, definition.inputs)}\n"
        f"  Outputs: {_describe_tensors(definition, definition.outputs)}"
    )


def _describe_tensors(definition: Definition, specs: dict[str, TensorSpec]) -> str:
    described = []
    for name, spec in specs.items():
        if spec.shape is None:
            described.append(f"{name} scalar")
            continue
        shape = ", ".join(str(definition.const_axes.get(axis, axis)) for axis in spec.shape)
        dtype = _SHORT_DTYPES.get(spec.dtype.value, spec.dtype.value)
        described.append(f"{name} [{shape}] {dtype}")
    return ", ".join(described)


def describe_definition(definition: Definition, catalogue: Catalogue) -> Iterator[RenderableType]:
    """The summary, its description, what is in the registry, and the reference."""
    yield summarize_definition(definition)
    if definition.description:
        yield from _describe(definition.description)
    yield ""
    (held,) = (row for row in definition_rows(catalogue) if row["name"] == definition.name)
    yield from fields(
        {
            "Operator type": definition.op_type,
            "Tags": ", ".join(definition.tags),
            "Constraints": "; ".join(definition.constraints),
            "Judged by": _judge_text(definition),
            "In this registry": counts_text({kind: held[kind] for kind in ("solutions", "workloads", "traces")}),
        }
    )
    yield heading("Reference")
    yield Text(definition.reference.rstrip("\n"))


def _judge_text(definition: Definition) -> str:
    recognition = recognise_source(definition)
    if recognition:
        return f"the operator {recognition.operator}, whose own reference it has"
    candidates = [each[0].operator for each in list_candidates(definition) if each]
    if candidates:
        return f"{' or '.join(candidates)}, if the reference's outputs are: an evaluation probes it"
    return "the reference alone, without hard inputs: no known operator has such tensors"


def describe_solution(solution: Solution, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Its purpose, its call, its Traces and its sources."""
    spec = solution.spec
    yield f"Solution: {solution.name}"
    if solution.description:
        yield from _describe(solution.description)
    yield ""
    traces = [trace for trace in catalogue.traces if trace.solution == solution.name]
    earlier = sum(map(catalogue.is_earlier, traces))
    yield from fields(
        {
            "Definition": solution.definition,
            "Author": solution.author,
            "Language": title_of(spec.language.value),
            "Binding": spec.binding.value if spec.binding else "",
            "Compiler flags": " ".join(spec.flags),
            "Entry point": spec.entry_point,
            "Called": "with its outputs (destination passing)" if spec.destination_passing_style else "for its outputs",
            "In place": ", ".join(f"{output} in {source}" for output, source in spec.in_place.items()),
            "Strides": "any" if spec.strided else "",
            "Made for": ", ".join(spec.target_hardware),
            "Needs": ", ".join(spec.dependencies),
            "On this machine": here_text(find_readiness(solution, all_devices())),
            "Traces": with_earlier(str(len(traces) - earlier), earlier),
        }
    )
    if traces:
        yield ""
        yield table_of("traces", trace_rows(traces, catalogue))
        titles = title_workloads(NamedWorkload.of(trace.workload) for trace in traces)
        yield f"\nOne of them: fib-rmsnorm show {show_name(solution.name, titles[traces[-1].workload.uuid])}"
    for source in solution.sources:
        yield heading(source.path)
        yield Text(source.content.rstrip("\n"))  # as it is, to be copied


def _describe(description: str) -> Iterator[RenderableType]:
    yield ""
    yield from map(Folded, harmless(description).splitlines())


def inputs_text(record: Trace) -> str:
    """The inputs of a Workload: `x random, weight random, eps=1e-06`."""
    inputs = []
    for name, given in record.workload.inputs.items():
        if given.type == "random":
            inputs.append(f"{name} random")
        elif given.type == "safetensors":
            inputs.append(f"{name} from {given.path} ({given.tensor_key})")
        else:
            inputs.append(assignments({name: given.value}))
    return ", ".join(inputs)


def fields(values: dict[str, str]) -> Iterable[RenderableType]:
    """Named values in a column; empty ones are left out."""
    known = {name: value for name, value in values.items() if value}
    width = max(map(len, known), default=0)
    return [Folded(f"{name + ':':<{width + 1}} {harmless(value)}", width + 2) for name, value in known.items()]


def heading(text: str) -> Text:
    """The title of a part, after an empty line."""
    return Text.assemble("\n", (harmless(text), "bold"), "\n")
