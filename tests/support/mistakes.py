"""The kernels with a usual mistake, of tests/mistaken_kernels/ and among the wrong ones, and what verdicts call it.

`mistake` in a kernel's table names what depends on the Definition in braces: `{hidden}`, `{dtype}`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fib_rmsnorm.evaluation.judging.judge import Judge
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, PossibleMistake
from fib_rmsnorm.evaluation.judging.mistake_finding import name_mistake
from fib_rmsnorm.evaluation.tensors.inputs import count_cases, make_case
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.schema import Definition, Settings, Workload
from support.kernels import Kernel, read_kernels

ANY = "any"
"""The mistake of a kernel whose output depends on what it finds."""
NAMED = "the output equals RMSNorm"
KERNELS = {
    name: kernel
    for name, kernel in {**read_kernels("wrong"), **read_kernels("mistaken")}.items()
    if "mistake" in kernel.table
}


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


def load_run(kernel: Kernel) -> Callable[..., Any]:
    """The function of a kernel in one Python file."""
    namespace: dict[str, Any] = {}
    exec(kernel.path.read_text(), namespace)
    return namespace["run"]


def name_in_process(run: Callable[..., Any], definition: Definition, workload: Workload, folder: Path) -> str | None:
    """What the judge calls the mistake of a kernel that is called here; None if it has a wrong output but no name.

    Fails if all outputs are right.
    """
    suspects = judge_in_process(run, definition, workload, folder)
    assert suspects is not None, "all outputs are right"
    return name_mistake(suspects)


def judge_in_process(
    run: Callable[..., Any], definition: Definition, workload: Workload, folder: Path
) -> list[PossibleMistake] | None:
    """The mistakes that give all outputs of a kernel since the first wrong ones; None if all are right."""
    recognition = recognise_source(definition)
    judge, outputs = Judge(), folder / "outputs"
    suspects: list[PossibleMistake] | None = None
    for case in range(count_cases(definition, recognition, workload)):
        out = run(**make_case(definition, recognition, workload, case, "cpu").inputs)
        with outputs.open("wb") as file:
            write_outputs(file.fileno(), [out])
        request = Compare(
            definition=definition,
            recognition=recognition,
            workload=workload,
            case=case,
            device="cpu",
            dataset=None,
            settings=Settings(),
            outputs_path=str(outputs),
            suspects=suspects,
        )
        verdict = judge.compare(request.model_dump(mode="json"))
        if suspects is not None or verdict.outputs[0].comparison.mismatched:
            suspects = verdict.mistakes
    return suspects
