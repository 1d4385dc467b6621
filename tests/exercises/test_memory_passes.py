"""Exercise 2, set up and graded: the page's own text earns all points, and what is wrong or missing earns none."""

from __future__ import annotations

import json
import re

import pytest

from support.exercise_page import list_commands, read_page, run_command, write_answers

pytestmark = pytest.mark.timeout(900)
PAGE = read_page("2-layernorm-passes.md")
KERNEL, MODULE, RELU_STORE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
IN_TORCH = """\
import torch
def run(x, weight, eps, out):
    out.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps))
"""


@pytest.fixture
def folder(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", "2")
    assert outcome.code == 0, outcome.err
    return tmp_path / "exercise-2"


def write_kernels(folder, module=MODULE):
    """The page's kernels in the place of the starters' TODOs."""
    relu = [*KERNEL.splitlines(keepends=True)[:-1], RELU_STORE]
    for name, body in (("rmsnorm_module.py", KERNEL), ("rmsnorm_relu.py", "".join(relu))):
        text = (folder / name).read_text()
        text = re.sub(r"(    # (?:One|TODO).*\n)+    pass\n", lambda _, body=body: body, text, count=1)
        text = re.sub(r"        # TODO.*\n        return x\n", lambda _: module, text)
        assert "TODO" not in text
        (folder / name).write_text(text)


def grade(fib, folder):
    outcome = fib("exercise", "2", folder, "--check", "--json")
    assert outcome.out, outcome.err
    return {task["title"]: task for task in json.loads(outcome.out)["tasks"]}


def test_answers_are_graded_by_sizes_and_traces(fib, folder):
    """The kernels are not in Triton, so that nothing is judged."""
    for name in ("rmsnorm_module.py", "rmsnorm_relu.py"):
        (folder / name).write_text(IN_TORCH)
    untouched = grade(fib, folder)
    assert [task["earned"] for task in untouched.values()] == [0, 0, 0, 0]
    assert len(untouched["Analysis"]["remarks"]) == 10
    write_answers(PAGE, folder / "passes.md")
    assert grade(fib, folder)["Analysis"] == {"title": "Analysis", "points": 40, "earned": 40, "remarks": []}
    traces = [json.loads(line) for line in (folder / "traces_h200.jsonl").read_text().splitlines()]
    for trace in traces:
        if trace["solution"] == "layernorm_python_torch_v1":
            trace["evaluation"]["performance"]["latency_ms"] *= 2
    (folder / "traces_h200.jsonl").write_text("".join(f"{json.dumps(trace)}\n" for trace in traces))
    text = (folder / "passes.md").read_text().replace("blocks of 64:** 80", "blocks of 64:** 32")
    (folder / "passes.md").write_text(text)
    graded = grade(fib, folder)["Analysis"]
    assert graded["earned"] == 32
    assert [remark.partition(":")[0] for remark in graded["remarks"]] == [
        "passes.md, Load sectors of a row, blocks of 64",
        "passes.md, Time of torch's LayerNorm over Triton's RMSNorm",
    ]


def test_another_exercise_is_not_taken_for_it(fib, folder):
    outcome = fib("exercise", "1", folder, "--check")
    assert (outcome.code, outcome.out) == (2, "")
    assert "does not hold exercise 1" in outcome.err


@pytest.mark.process
def test_the_page_earns_all_points(fib, tmp_path):
    """Its commands in order, its kernels and its answers, from an empty folder; and then a module that is wrong."""
    pytest.importorskip("triton")
    import torch

    if torch.cuda.is_available():
        pytest.skip("the page shows what a CPU says")
    cwd = tmp_path
    for command, shown in list_commands(PAGE):
        if command.endswith("--check"):
            write_kernels(cwd)
            write_answers(PAGE, cwd / "passes.md")
        said = run_command(command, cwd)
        for line in shown:
            assert line in said, (command, line, said)
        if command == "fib-rmsnorm exercise 2":
            cwd = tmp_path / "exercise-2"
    kernel = cwd / "rmsnorm_module.py"
    kernel.write_text(kernel.read_text().replace("self.weight, self.eps", "torch.ones_like(self.weight), self.eps"))
    tasks = grade(fib, cwd)
    assert {title: task["earned"] for title, task in tasks.items()} == {
        "RMSNorm": 25,
        "Module": 0,
        "RMSNorm and ReLU": 20,
        "Analysis": 40,
    }
    assert "weight" in tasks["Module"]["remarks"][0]
