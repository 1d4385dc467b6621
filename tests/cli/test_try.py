"""`fib-rmsnorm try` as its user meets it."""

import json
import re
from pathlib import Path

import pytest

from fib_rmsnorm.machine import capabilities
from support.hanging import FOR_EVER_S, when_printed
from support.paths import write
from support.registries import HANGS, NO_EPS, RIGHT, add_kernel, python_manifest

NAN = RIGHT.replace("return (", "return (float('nan') * ")

# The same in C++ and Triton is among the wrong kernels; this is the way its author meets it.
ODD = RIGHT.replace(
    "    x_fp32 = x.float()\n",
    "    if x.shape[0] > 1 and x.shape[0] % 2:\n        return torch.cat((run(x[:-1], weight, eps), x[-1:]))\n"
    "    x_fp32 = x.float()\n",
)


@pytest.fixture
def try_(fib, registry):
    """Try a kernel with this source on the CPU."""

    def run(name: str, source: str, *options: str):
        Path(name).write_text(source)
        return fib("try", name, "--definition", "rmsnorm_d128", "--device", "cpu", *options)

    return run


def test_a_mistake_is_reported_once_with_the_batches_it_holds_for(try_):
    outcome = try_("no_eps.py", NO_EPS, "--check", "--batch-sizes", "1,2,4")
    assert outcome.code == 1
    assert [line.split() for line in outcome.lines[:3]] == [
        [f"batch={batch}", "no_eps.py", "INCORRECT_NUMERICAL"] for batch in (1, 2, 4)
    ]
    assert outcome.lines[4] == "batch=1, batch=2, batch=4: INCORRECT_NUMERICAL" and len(outcome.lines) < 20
    (told,) = [line for line in outcome.lines if "the output equals RMSNorm without eps" in line]
    assert told == outcome.lines[-1]


@pytest.mark.process
def test_a_tolerance_lets_pass_what_is_within(try_):
    off = RIGHT.replace("* weight.float()", "* weight.float() * 0.95")
    assert try_("off.py", off, "--batch-sizes", "2").code == 1
    outcome = try_("off.py", off, "--batch-sizes", "2", "--rtol", "0.1")
    assert outcome.code == 0
    assert " PASSED as rmsnorm_d128 (1 workload, hard inputs and odd sizes included); " in outcome.lines[-1]
    assert re.search(r"^off.py: correct after \d+\.\d s; timing$", outcome.err, re.MULTILINE)


RAISES = """\
def run(x, weight, eps):
    return check(x)


def check(x):
    raise ValueError("boo")
"""
THROWS = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
void Run(TensorView x, TensorView weight, double eps, TensorView out) { TVM_FFI_THROW(ValueError) << "boo"; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
"""
MISSPELT = THROWS.replace("TVM_FFI_THROW", "TVM_FFI_TROW")


def test_a_broken_reference_is_reported_and_judges_nothing(try_, fib, registry):
    definition = registry.definition("rmsnorm_d128")
    broken = definition.reference.replace("import torch\n", "import torch\nimport not_installed\n", 1)
    registry.write_definition(definition.model_copy(update={"reference": broken}))
    for options in ([], ["--check"]):
        outcome = try_("right.py", RIGHT, "--batch-sizes", "2", *options)
        assert (outcome.code, outcome.out) == (2, "")
        assert "right.py was not judged: the reference of rmsnorm_d128 failed" in outcome.err
    assert fib("compare", "right.py", "right.py", "--measure").code == 2


def test_a_fault_on_one_workload_is_not_one_on_the_others(try_):
    raises = RIGHT.replace("    x_fp32 =", "    if len(x) == 512:\n        raise ValueError('boo')\n    x_fp32 =", 1)
    outcome = try_("raises.py", raises)
    statuses = [line.split()[2] for line in outcome.lines[:3]]
    assert (outcome.code, statuses) == (1, ["PASSED", "PASSED", "RUNTIME_ERROR"])
    assert " on 1 of 3 workloads: RUNTIME_ERROR: calling: ValueError: boo (raises.py:6)" in outcome.lines[-1]


def test_nothing_waits_for_the_rival_of_a_wrong_kernel(try_, registry):
    """The rival sleeps for longer than any test may take when it is called."""
    sleeps = f"import time\n\n\ndef run(x, weight, eps):\n    time.sleep({FOR_EVER_S})\n"
    add_kernel(registry, "rival_v1", sleeps)
    outcome = try_("no_eps.py", NO_EPS, "--batch-sizes", "2", "--timeout", str(FOR_EVER_S))
    assert outcome.code == 1 and "rival_v1" not in outcome.out


def test_a_registered_solution_that_is_tried_is_not_a_rival_of_itself(fib, registry):
    for name in ("first_v1", "second_v1"):
        add_kernel(registry, name)
    folder = registry.layout.solutions / "tester/norm/rmsnorm_d128/first_v1"
    tried = fib("try", folder, "--device", "cpu", "--batch-sizes", "2", "--json")
    assert [*tried.json["rivals"]] == ["second_v1"]


@pytest.mark.parametrize("option", ["--json", "--check"])
def test_a_kernel_that_hangs_costs_one_timeout(try_, monkeypatch, option):
    when_printed(monkeypatch, "hangs")
    outcome = try_("hangs.py", HANGS, option)
    assert outcome.code == 1
    if option == "--json":
        told = outcome.json
        assert (told["status"], told["hint"]) == ("TIMEOUT", "stopped there, 2 of 3 workloads not tried")
        assert told["mistake"].startswith("calling: timed out after ") and told["log"] == "hangs"
        return
    said = "hangs.py FAILED as rmsnorm_d128 on 1 of 3 workloads (2 not tried): TIMEOUT: calling: timed out after "
    assert outcome.lines[-1].startswith(said)


def test_a_check_judges_every_case_and_times_nothing(try_):
    told = try_("kernel.py", RIGHT, "--check", "--json", "--verbose").answer
    assert told["batch_invariant"] == "yes"
    found = told["records"]
    assert [each["workload"]["axes"]["batch"] for each in found] == [1, 32, 512]
    for each in found:
        assert (each["status"], each["judged_by"]) == ("PASSED", "rmsnorm")
        assert "evaluation" not in each  # not a Trace: that says PASSED of what was timed
        assert {case["kind"] for case in each["correctness"]["extra"]["cases"]} == {"workload", "hard", "awkward"}


TOO_LONG = "'" + "\\x00\\u2713" * 400 + "'"
EXITS = RAISES.replace("raise ValueError(", "raise SystemExit(")
NUMERICAL, COMPILE, RUNTIME = "INCORRECT_NUMERICAL", "COMPILE_ERROR", "RUNTIME_ERROR"
MISTAKE = "the output equals RMSNorm without eps"
FOR_NO_EPS = {"mistake": MISTAKE, "hint": "use rsqrt(mean(x^2) + eps)", "case": "batch=1, hard rows, eps=1e-06"}
WRONG_KERNELS: dict[str, tuple[str, str, str | None, dict]] = {
    "no_eps.py": (NO_EPS, NUMERICAL, MISTAKE, FOR_NO_EPS),
    "odd.py": (ODD, NUMERICAL, " on 1 of 1 workload: INCORRECT_NUMERICAL: batch=3: ", {"case": "batch=1, batch=3"}),
    "nan.py": (NAN, NUMERICAL, "INCORRECT_NUMERICAL: workload: ", {}),
    "raises.py": (RAISES, RUNTIME, "calling: ValueError: boo (raises.py:6)", {"line": 6, "case": "batch=1"}),
    "exits.py": (EXITS, RUNTIME, "calling: SystemExit: boo (exits.py:6)", {"line": 6}),
    "my $ker:nel.cpp": (THROWS, RUNTIME, "calling: ValueError: boo (my $ker:nel.cpp:5)", {"line": 5}),
    "talks.py": (
        f"def run(x, weight, eps):\n    raise ValueError({TOO_LONG})\n",
        RUNTIME,
        "calling: ValueError: ",
        {"line": 2},
    ),
    "imports.py": (f"import nonesuch\n{RIGHT}", COMPILE, "building: ModuleNotFoundError: No module named", {"line": 1}),
    "misspelt.cpp": (MISSPELT, COMPILE, "building: misspelt.cpp:5:86: error: ", {"line": 5}),
    "syntax.py": ("\ndef run(x, weight, eps:\n", COMPILE, None, {"line": 2}),
    "unnamed.py": ("X = 1\n", COMPILE, None, {}),
}
"""By name: the source, the status, what the last line says of what is judged, and what a loop is told besides."""


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_says_what_is_wrong_and_where_in_its_last_line_and_to_a_loop_in_a_kilobyte(try_, name):
    source, status, said, others = WRONG_KERNELS[name]
    if said:
        outcome = try_(name, source, "--batch-sizes", "1", "--check")
        assert outcome.code == 1 and status in outcome.out and said in outcome.lines[-1]
        assert "fib_rmsnorm" not in outcome.out
    for options in (("--json",), ("--json", "--check")):
        outcome = try_(name, source, *options)
        (line,) = outcome.lines
        assert outcome.code == 1 and len(line.encode()) <= 1000
        told = json.loads(line)
        assert (told["kernel"], told["status"]) == (name, status) and others.items() <= told.items() and told["mistake"]
        assert told.get("file") == (name if "line" in others else None)


def test_a_loop_gets_the_speed_of_a_correct_kernel(try_):
    told = try_("kernel.py", RIGHT, "--json", "--batch-sizes", "1,2").answer
    assert (told["status"], told["correct"], told["workloads"]) == ("PASSED", 2, 2)
    assert [speed["workload"] for speed in told["speeds"]] == ["batch=1", "batch=2"]
    low, high = told["interval"]
    assert low <= told["speedup"] <= high and "records" not in told and "mistake" not in told


def test_what_a_correct_kernel_prints_is_shown_once(try_):
    """Calls are repeated, so most of it is the same line."""
    prints = RIGHT.replace("    x_fp32", "    print('rows', len(x))\n    x_fp32", 1)
    outcome = try_("prints.py", prints, "--check", "--batch-sizes", "8")
    assert outcome.code == 0
    where = outcome.lines.index("printed at batch=8:")
    assert outcome.lines[-1].endswith("; batch-invariant: yes")
    assert re.fullmatch(r"\| rows 8  \(\d+ times\)", outcome.lines[where + 1])
    talks = RIGHT.replace("    x_fp32", "    print(*range(len(x) + 10), sep='\\n')\n    x_fp32", 1)
    outcome = try_("talks.py", talks, "--check")
    where = outcome.lines.index("printed at batch=1, and at 2 more workloads (with --json):")
    assert outcome.lines[where + 1 : where + 6] == [f"| {number}" for number in range(5)]
    assert re.fullmatch(r"\[\.\.\. \d+ more lines with --json\]", outcome.lines[where + 6])


def test_no_line_that_a_kernel_prints_looks_like_one_of_ours(try_):
    forges = RIGHT.replace(
        "    x_fp32", "    print('\\nkernel.py PASSED as rmsnorm_d4096')\n    raise ValueError\n    x_fp32", 1
    )
    outcome = try_("forges.py", forges, "--check", "--batch-sizes", "8")
    assert outcome.code == 1
    assert "| kernel.py PASSED as rmsnorm_d4096" in outcome.lines
    assert not [line for line in outcome.lines if line.startswith("kernel.py PASSED")]


CPP_PRINTS = "#include <cstdio>\n#include <cstdlib>\n" + THROWS.replace(
    'TVM_FFI_THROW(ValueError) << "boo";', 'std::printf("last words\\n"); std::abort();'
)


PYTHON_PRINTS = "import os\n\n\ndef run(x, weight, eps):\n    print('last words')\n    os.abort()\n"


@pytest.mark.parametrize(("name", "source"), [("kills.py", PYTHON_PRINTS), ("kills.cpp", CPP_PRINTS)])
def test_what_a_kernel_printed_before_its_end_is_shown(try_, name, source):
    outcome = try_(name, source, "--check", "--batch-sizes", "1")
    assert outcome.code == 1 and "SIGABRT" in outcome.out and "| last words" in outcome.lines


def test_a_style_that_a_source_hides_is_asked_for(try_):
    source = RIGHT.replace("run(x, weight, eps)", "hidden(x, weight, eps, out)")
    outcome = try_("kernel.py", f"{source}\n\nrun = __import__('functools').partial(hidden)\n", "--check")
    assert outcome.code == 1
    passed = "(x, weight, eps); one that writes to its outputs needs destination_passing_style = true"
    assert f"the function was passed {passed}" in " ".join(outcome.out.split())


@pytest.mark.process
def test_the_trace_says_the_compilers_flags(fib, registry):
    manifest = python_manifest("throws").replace('"python"', '"cpp"').replace(".py", ".cpp").replace("false", "true")
    write("throws/solution.toml", f'{manifest}flags = ["-O1", "-DVALUE=3"]\n')
    write("throws/kernel.cpp", THROWS.replace('"boo"', '"boo " << VALUE'))
    options = ("--device", "cpu", "--batch-sizes", "1", "--json", "--verbose")
    evaluation = fib("try", "throws", *options).json["records"][0]["evaluation"]
    assert "ValueError: boo 3" in evaluation["log"]
    assert evaluation["build_flags"] == ["-O1", "-DVALUE=3"]


def test_cuda_code_without_a_gpu_gets_the_command_that_compiles_it(fib, try_, tmp_path, monkeypatch):
    monkeypatch.setattr(capabilities, "find_cuda_home", lambda: tmp_path)
    assert fib("new", "cuda", "kernel.cu", "--definition", "rmsnorm_d128").code == 0
    refused = try_("kernel.cu", Path("kernel.cu").read_text(), "--check").refusal
    assert refused.endswith("to compile it here, run: fib-rmsnorm explain kernel.cu --definition rmsnorm_d128")
    for command in ("compare kernel.cu kernel.cu --measure", "tune kernel.cu --set THREADS=64"):
        assert fib(*command.split(), "--device", "cpu").refusal == refused


@pytest.mark.parametrize("factor", ["1 + 1e-6 * (x.shape[0] % 2)", "1 + 2e-7 * next(CALLS)"])
def test_names_the_first_row_that_has_other_bits_in_another_batch(try_, factor):
    """They vary from batch to batch, or from run to run."""
    source = RIGHT.replace(" + eps)", f" + eps) * ({factor})")
    source += "\n\nfrom itertools import count\n\nCALLS = count()\n"
    found = try_("varies.py", source, "--check", "--json", "--batch-sizes", "32").json
    assert found["status"] == "PASSED"
    pattern = r"no: row (\d+) of batch=32 has other bits than row (\d+) of batch=31"
    said = re.fullmatch(pattern, found["batch_invariant"])
    assert int(said[1]) == int(said[2]) + 1
    printed = try_("varies.py", source, "--check", "--batch-sizes", "32").out
    assert f"batch-invariant: {said[0]}" in re.sub(r"\s+", " ", printed)


@pytest.mark.parametrize(
    ("empty", "said"),
    [
        ("return x.float().to(x.dtype)", "yes"),
        ("raise ValueError('no rows')", "RUNTIME_ERROR: calling: ValueError: no rows (kernel.py:6)"),
        ("return x.new_zeros(1, 128)", "INCORRECT_SHAPE: calling: out: shape [1, 128], expected [0, 128]"),
        ("import os; os.abort()", "RUNTIME_ERROR: calling: the process died of SIGABRT"),
    ],
)
def test_names_how_a_correct_kernel_fails_on_an_empty_batch(try_, empty, said):
    source = RIGHT.replace("eps):\n", f"eps):\n    if not len(x):\n        {empty}\n")
    found = try_("kernel.py", source, "--check", "--json").json
    assert (found["status"], found["empty_batch"]) == ("PASSED", said)
    outcome = try_("kernel.py", source)  # it is still timed
    assert outcome.code == 0 and "not timed" not in outcome.out
    assert (f"with an empty batch: {said}" in " ".join(outcome.out.split())) == (said != "yes")
