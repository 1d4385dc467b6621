"""Kernels judged in this process, and what verdicts call the usual mistakes of kernels.

`mistake` in a wrong kernel's table names what depends on the Definition in braces: `{hidden}`, `{dtype}`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.faults import allow_truncation, name_mistakes
from fib_rmsnorm.evaluation.judging.judge import Judge
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, PossibleMistake
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, make_case, torch_dtype
from fib_rmsnorm.operators import find_operator, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.schema import Definition, Settings, Workload
from support.kernels import change

ANY = "any"
"""The mistake of a kernel whose output depends on what it finds."""
NAMED = "the output equals RMSNorm"


def mistake_of(text: str, definition: Definition) -> str:
    """What a table calls a mistake, for a Definition."""
    hidden = definition.const_axes["hidden"]
    dtype = definition.inputs["x"].dtype.value
    return text.format(
        hidden=hidden,
        half=hidden // 2,
        but_64=hidden - 64,
        hidden_less_one=hidden - 1,
        dtype=dtype,
        other_dtype="float16" if dtype == "bfloat16" else "bfloat16",
    )


def assert_named(log: str, mistake: str | None, definition: Definition) -> None:
    """The first line of a failure's log names the mistake, and no line does if there is none."""
    if mistake == ANY:
        return
    if mistake is None:
        assert NAMED not in log, log
    else:
        first = log.partition("\n")[0]
        assert first.startswith(NAMED), log
        assert f"{mistake_of(mistake, definition)}: " in first, log


def change_reference(operator: str, *changes: str) -> str:
    """The reference of an operator, with changes: old and new text in turn."""
    return change(find_operator(operator).reference.replace(".to(torch.float32)", ".float()"), *changes)


def load(source: str, **space: Any) -> Callable[..., Any]:
    """The `run` of a kernel's or reference's source, which may use the names of `space`."""
    exec(source, space)
    run: Callable[..., Any] = space["run"]
    return run


def name(run: Callable[..., Any] | str, definition: Definition, folder: Path, batch: int = 16) -> list[str]:
    """What the judge calls the mistakes of a wrong kernel, or of its source."""
    suspects = judge(run, definition, folder, batch)
    assert suspects, "all outputs are right"
    return name_mistakes(suspects, list(definition.outputs))


def ask_to_compare(definition: Definition, workload: Workload, **options: Any) -> Compare:
    """A request to the judge, by default about the Workload itself, whose outputs lie in the first file."""
    usual: dict[str, Any] = {"case": 0, "device": "cpu", "dataset": None, "settings": Settings(), "outputs_file": 0}
    recognition = recognise_source(definition)
    return Compare(definition=definition, recognition=recognition, workload=workload, **{**usual, **options})


def judge(
    run: Callable[..., Any] | str,
    definition: Definition,
    folder: Path,
    batch: int = 16,
    *,
    is_interpreted: bool = False,
) -> dict[str, list[PossibleMistake]]:
    """For each wrong output of a kernel, the mistakes that give it since it was wrong first; empty if all are right.

    A kernel may be given by its source.
    """
    run = load(run) if isinstance(run, str) else run
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [batch])
    files: list[int] = []
    judge, outputs = Judge(files), folder / "outputs"
    suspects: dict[str, list[PossibleMistake]] = {}
    wrong: set[str] = set()
    for case in range(count_cases(definition, recognition, workload)):
        found = run(**make_case(DeviceWorkload(definition, workload, "cpu"), recognition, case).inputs)
        with outputs.open("wb") as file:
            write_outputs(file.fileno(), [found] if isinstance(found, torch.Tensor) else list(found))
        request = ask_to_compare(definition, workload, case=case, suspects=suspects or None)
        with outputs.open("rb") as file:
            files[:] = [file.fileno()]
            (verdict,) = judge.compare(request).verdicts
        if is_interpreted:
            allow_truncation(verdict, definition)
        wrong |= {name for name, each in verdict.outputs.items() if each.is_wrong}
        suspects |= {name: [] for name, each in verdict.outputs.items() if each.is_wrong and name not in suspects}
        suspects = {name: verdict.mistakes.get(name, []) for name in definition.outputs if name in suspects}
    return {name: suspects.get(name, []) for name in definition.outputs if name in wrong}


def make_outputs(definition: Definition, batch: int, device: str) -> list[torch.Tensor]:
    """Outputs that are wrong until somebody writes them."""
    sizes = {**definition.const_axes, "batch": batch}
    return [
        torch.full([sizes[axis] for axis in spec.shape or ()], float("nan"), device=device).to(
            torch_dtype(spec.dtype.value)
        )
        for spec in definition.outputs.values()
    ]


def is_entry_wrong(
    entry: Callable[..., Any], definition: Definition, batch: int, folder: Path, *, device: str, is_interpreted: bool
) -> bool:
    """Whether an entry point that writes into outputs has wrong ones at this batch."""

    def run(**inputs: Any) -> tuple[torch.Tensor, ...]:
        moved = [each.to(device) if isinstance(each, torch.Tensor) else each for each in inputs.values()]
        outputs = make_outputs(definition, inputs["x"].shape[0], device)
        entry(*moved, *outputs)
        return tuple(output.cpu() for output in outputs)

    return bool(judge(run, definition, folder, batch, is_interpreted=is_interpreted))
