"""The sentences on wrong outputs and the mistakes that explain them, and the errors in numbers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import inf

from fib_rmsnorm.evaluation.judging.judge_messages import PossibleMistake, Verdict
from fib_rmsnorm.evaluation.worker.worker_messages import Effects
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError
from fib_rmsnorm.schema import AGAINST, Correctness, Definition, DType, JudgedCase

_TRUNCATED_BFLOAT16 = 2.0**-8
"""Half a unit in the last place, relative to the least number that has this unit."""


def allow_truncation(verdict: Verdict, definition: Definition) -> None:
    """Triton's interpreter truncates float32 to bfloat16, where a GPU rounds: the kernel does not cause it."""
    for name, found in verdict.outputs.items():
        if definition.outputs[name].dtype is DType.BFLOAT16:
            found.bias.allowed += _TRUNCATED_BFLOAT16
            found.roundings.allowed = inf


def describe_faults(verdict: Verdict, effects: Effects) -> list[str]:
    """A sentence on each wrong output of a call, and on each of its side effects."""
    call = f"{verdict.case}: the call"
    faults = [f"{call} changed its output {name!r} after it had returned" for name in effects.changed_outputs]
    if verdict.hint:
        faults.append(f"{verdict.case}: {verdict.hint}")
    for name, found in verdict.outputs.items():
        if found.mismatched:
            kinds = f" on: {', '.join(found.failing_kinds)}" if found.failing_kinds else ""
            faults.append(
                f"{verdict.case}: {name}: {found.mismatched} of {found.elements} elements wrong{kinds};"
                f" worst at {found.worst} (rtol {found.rtol:g}, atol {found.atol:.2g})"
            )
        elif found.bias.is_wrong:
            bias, where = found.bias, "" if found.bias.row is None else f" in row {', '.join(map(str, found.bias.row))}"
            faults.append(
                f"{verdict.case}: {name}: too {'large' if bias.value > 0 else 'small'} by {abs(bias.value):.2g} of its"
                f" size on average{where}, with each element within its tolerance; correct outputs are off by at most"
                f" {bias.allowed:.2g}"
            )
        elif found.roundings.is_wrong:
            faults.append(
                f"{verdict.case}: {name}: {found.roundings.value:.0f} of {found.elements} elements rounded to another"
                " number, each within its tolerance: something is rounded on the way; where only the result is, at most"
                f" {found.roundings.allowed:.0f} differ"
            )
    in_place = "; an output may take its place if the Solution's [spec] says so: in_place = {OUTPUT = INPUT}"
    gap = " or what lies between its rows" if verdict.kind == "strided" else ""
    faults += [f"{call} changed its input {name!r}{gap}{in_place}" for name in effects.changed_inputs]
    faults += [f"{call} wrote beyond its output {name!r}" for name in effects.overrun]
    return faults


def refusal_of(
    faults: list[str], suspects: Mapping[str, Sequence[PossibleMistake]], verdicts: list[Verdict]
) -> EvaluationFailedError:
    """The failure of wrong outputs, with the mistakes first that explain them."""
    text = "\n".join([*name_mistakes(suspects, verdicts[0].outputs), *faults])
    return EvaluationFailedError("INCORRECT_NUMERICAL", text, sum_up(verdicts))


def name_mistakes(suspects: Mapping[str, Sequence[PossibleMistake]], outputs: Collection[str]) -> list[str]:
    """A sentence on each wrong output that one mistake explains, with the output's name if there are several `outputs`.

    `suspects` are the mistakes that would give each wrong output, by its name.
    """
    sentences = {name: _name_mistake(each) for name, each in suspects.items()}
    return [f"{name}: {said}" if len(outputs) > 1 else said for name, said in sentences.items() if said]


def _name_mistake(suspects: Iterable[PossibleMistake]) -> str | None:
    """The sentence on the one mistake that explains an output in all cases, the simplest; None if several do.

    None too if no case told it from the right answer.
    """
    shown = [mistake for mistake in suspects if mistake.is_shown]
    fewest = min((mistake.parts for mistake in shown), default=0)
    simplest = {mistake.sentence for mistake in shown if mistake.parts == fewest}
    return simplest.pop() if len(simplest) == 1 else None


def sum_up(verdicts: list[Verdict]) -> Correctness:
    """Sum up the errors: upstream's two fields for the Workload's own inputs, and `extra` for every case."""
    own = verdicts[0].outputs
    peer = next((verdict.peer for verdict in verdicts if verdict.peer), None)
    return Correctness(
        max_absolute_error=max((found.max_absolute_error for found in own.values()), default=0.0),
        max_relative_error=max((found.max_relative_error for found in own.values()), default=0.0),
        extra={
            "tolerance": {name: {"rtol": found.rtol, "atol": found.atol} for name, found in own.items()},
            "cases": [_describe_case(verdict).model_dump(exclude_defaults=True) for verdict in verdicts],
            **({AGAINST: asdict(peer)} if peer else {}),
        },
    )


def _describe_case(verdict: Verdict) -> JudgedCase:
    outputs = verdict.outputs
    return JudgedCase(
        case=verdict.case,
        kind=verdict.kind,
        max_absolute_error=max((output.max_absolute_error for output in outputs.values()), default=0.0),
        mismatched=sum(output.mismatched for output in outputs.values()),
        ulp={name: output.ulp for name, output in outputs.items()},
        reference_ulp={name: output.reference_ulp for name, output in outputs.items() if output.reference_ulp},
        against={name: output.against for name, output in outputs.items() if output.against},
        recurrence=verdict.recurrence,
    )
