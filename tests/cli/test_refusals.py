"""What no command can do is refused: exit code 2, one line that says what is wrong, and no file changed."""

from importlib.util import find_spec
from pathlib import Path
from shlex import split

import pytest

from fib_rmsnorm.machine.devices import list_gpus
from support.full_registry import CUDA, DEFINITION, DEFINITION_FILE, PYTHON, PYTHON_FOLDER, PYTHON_TRACES, WORKLOAD_FILE
from support.paths import files_of
from support.registries import RIGHT

ANALYSES = ("report", "best", "analyze")
LONG = "x" * 300
"""A name that no file can have."""
TO_FILE = f"report {PYTHON_TRACES}"
COMPARE = f"compare {PYTHON_TRACES} {PYTHON_TRACES}"
MEASURE = "compare --measure --device cpu"
TRY = f"try kernel.py --definition {DEFINITION} --device cpu"
REGISTER = f"register kernel.py --definition {DEFINITION}"
ON_CLUSTERS = [
    ("bench --gpus H100", "--gpus chooses devices of a Ray cluster: add --ray"),
    ("bench --ray --device cuda:1", "with --ray: auto, cpu or cuda"),
    ("bench --device cpu --ray --context graph", "--context graph needs a CUDA device"),
    ("bench --ray somewhere", "--ray somewhere: expected HOST:PORT"),
    ("bench --ray ray://127.0.0.1:10001", "--ray ray://127.0.0.1:10001: expected HOST:PORT"),
    ("bench --ray 127.0.0.1:1", "--ray 127.0.0.1:1: no Ray cluster answers there"),
    (f"bench --ray --resume --against {PYTHON}", "give one of them"),
]
REFUSED = [
    *(ON_CLUSTERS if find_spec("ray") else []),
    ("bench --definitions nope", "no Definition matches 'nope'"),
    ("bench --solutions nope", "no Solution matches 'nope'"),
    ("bench --device tpu", "unknown device 'tpu'"),
    ("bench --device cuda:99", "no device 'cuda:99'"),
    ("bench --batch-sizes 1,abc", "'abc' is not a positive integer"),
    ("bench --batch-sizes ²", "'²' is not a positive integer"),
    ("bench --device cpu --batch-sizes 1000000000", "batch 1000000000"),
    ("bench --device cpu --context graph", "--context graph needs a CUDA device"),
    ("bench --output traces.csv", "must end in .json or .jsonl"),
    ("bench --output /no/such/folder/t.json", "no such folder"),
    ("bench --output /proc/traces.json", "/proc/traces.json"),
    ("bench --rtol -1", "--rtol"),
    ("bench --iterations 100001", "100000"),
    ("bench --warmup-runs 99999999999999", "10000"),
    ("bench --num-trials 1001", "1000"),
    ("bench --timeout 0", "--timeout"),
    ("bench stray", "stray"),
    ("bench --against rmsnorm_*", f"--against rmsnorm_*: {DEFINITION} has several: {CUDA}, {PYTHON}; choose one"),
    (f"bench --against {PYTHON} --resume", "--against compares outputs of this run"),
    ("bench --against liger", f"no Solution of the chosen Definitions matches (available: {CUDA}, {PYTHON})"),
    *((f"{name} --batch-sizes 8,16", "no Trace has batch size 16 (available: 1, 8)") for name in ANALYSES),
    *((f"{name} --batch-sizes 0", "'0' is not a positive integer; every kernel is called on an") for name in ANALYSES),
    (f"{COMPARE} --allow weather", "unknown weather; choose from device, timer, clock, cache, definition, missing"),
    (f"{COMPARE} --batch-sizes 3", "no Trace has batch size 3 (available: 1, 8)"),
    (f"{COMPARE} --measure --solutions x", "--measure takes two Solutions as OLD and NEW"),
    (f"compare {PYTHON_TRACES} new.json", "write it by: fib-rmsnorm bench --output new.json; to time two, add --meas"),
    (f"compare {PYTHON} {CUDA}", f"no such file or folder: {PYTHON}; write it by: "),
    (f"compare {LONG}.json .", LONG),
    ("compare a.json b.json --call norm", "add --measure"),
    ("compare kernel.py a.json", "kernel.py is a kernel, not a file of Traces; to time two kernels, add --measure"),
    (f"{MEASURE} zz {PYTHON}", "'zz' is neither a Solution of"),
    (f"{MEASURE} {PYTHON} {PYTHON} --batch-sizes 2147483647", "--batch-sizes 2147483647: needs about"),
    (f"{MEASURE} {PYTHON} {PYTHON} --call norm", f"--call norm: {PYTHON!r} is not a kernel's file"),
    *(
        (f"init {folder}", "holds a registry's own records")  # the next report would count them twice
        for folder in ("traces/out", "traces/ann/out", "definitions/new", "solutions/ann/norm/out")
    ),
    *((f"init {name}", f"{name} exists and is not an empty folder") for name in ("kernel.py", "folder.py")),
    ("init kernel.py/below", "kernel.py/below: Not a directory"),
    ("define --hidden 128000000000", "hidden must be 1 to 1048576, not 128000000000"),
    ("define --dtype FP16", "float16, bfloat16, float32, fp16, bf16, fp32"),
    ("exercise 9", "no exercise 9 (available: 1 ("),
    (
        "exercise 1 --check",
        "exercise-1 holds no analysis.md, so not exercise 1; set it up with: fib-rmsnorm exercise 1",
    ),
    (f"exercise 1 {LONG}", LONG),
    (f"explain {PYTHON[:-1]}", f"(available: {CUDA}, {PYTHON})"),
    (f"explain {PYTHON}", f"{PYTHON} is Python: it has no code of a GPU to explain"),
    (f"explain {PYTHON} --definition foo", f"no Definition 'foo' in {{root}} (available: {DEFINITION})"),
    (f"explain {PYTHON} --call norm", f"--call norm: {PYTHON!r} is not a kernel's file"),
    *((f"explain {CUDA} --arch {arch}", f"{arch!r} is not a") for arch in ("sm_999", "sm_13", "hopper")),
    (f"explain {CUDA} --arch gfx942", "CUDA does not compile for AMD's GPUs here, only Triton does"),
    (f"explain {CUDA} --arch sm_90,gfx1100", "'gfx1100' is not a supported GPU architecture: choose one of gfx90a, gf"),
    (f"explain {CUDA} --arch sm_50", "'sm_50' is not a supported GPU architecture: choose one from sm_70 to sm_121"),
    (f"explain {CUDA} --arch mi300x", "'mi300x' is not a GPU architecture: write it like sm_90 or gfx942"),
    ("history other_v1", f"no Solution with Traces matches 'other_v1' (available: {CUDA}, {PYTHON})"),
    (
        f"history {CUDA} {PYTHON_TRACES}",
        f"{CUDA} is registered, but has no Traces here; measure it with: fib-rmsnorm bench --definitions {DEFINITION} ",
    ),
    ("history ''", "name is empty: give it a value, or leave it out"),
    ("list solutoins", "cannot list 'solutoins': choose from definitions, solutions, workloads, traces"),
    ("solve --languages fortran", "unknown language 'fortran'"),
    ("list --root nowhere", "no such folder: nowhere"),
    ("list --root definitions", "not a registry: "),
    ("list --root 'my registry'", "to create a registry there, run: fib-rmsnorm init 'my registry'"),
    ("merge .", "merge needs a registry, and a registry or a file of Traces to merge into it"),
    ("merge . nowhere", "no such file or folder: nowhere"),
    ("merge . nosuch.json", "no such file or folder: nosuch.json"),
    (f"merge . {LONG}", LONG),
    (f"merge . {WORKLOAD_FILE}", "2 of 2 records are not Traces: they lack a solution or an evaluation"),
    (f"merge {WORKLOAD_FILE} .", f"not a registry: {WORKLOAD_FILE} is not a folder"),
    ("new cuda kernel2.cpp", "kernel2.cpp: a file in CUDA ends in .cu"),
    ("new cpp kernel2.py", "kernel2.py: a file in C++ ends in .cpp or .cc or .cxx"),
    ("new cutedsl kernel2", "kernel2: a file in CuTe DSL ends in .py"),
    (
        "new triton norm.v2.py",
        "norm.v2.py: Python cannot import a file with a dot in its name; rename it, for example ",
    ),
    ("new python kernel.py", "kernel.py exists; name another file, or remove it first"),
    ("new python folder.py", "folder.py exists; name another file, or remove it first"),
    ("new python nowhere/kernel.py", "cannot write nowhere/kernel.py: No such file or directory"),
    *([] if list_gpus() else [(f"profile {CUDA}", "needs an NVIDIA GPU; without one, see: fib-rmsnorm explain")]),
    (f"{REGISTER} --name {PYTHON} --author ann", f"a Solution '{PYTHON}' exists already ({DEFINITION}, by baseline)"),
    (f"{REGISTER} --name folder_v1 --author ann", "folder_v1 exists already"),
    (f"{REGISTER} --name ../up --author ann", "solution '../up' is not a safe name"),
    (f"{REGISTER} --name new_v1 --author ..", "author '..' is not a safe name"),
    (f"{REGISTER} --name new_v1 --author published", "an author cannot be named 'published'"),
    (f"register {PYTHON_FOLDER} --name new_v1 --author ann", "copy it into solutions/<author>/<op_type>/<definition>/"),
    ("report missing.json", "no such file or folder: missing.json"),
    (f"report {LONG}", LONG),
    (f"{TO_FILE} --summary --against x", "--against and --summary are two reports"),
    (f"{TO_FILE} --summary --output out.html", "--summary and --output are two reports"),
    (f"{TO_FILE} --definitions zz", "no Definition with Traces matches 'zz'"),
    (f"{TO_FILE} --output out.md", "out.md is a page for a browser, in .html; for text or JSON, redirect stdout"),
    (f"{TO_FILE} --output out.html --json", "out.html is a page for a browser, in .html; for text or JSON"),
    (f"{TO_FILE} --output missing/out.html", "no such folder"),
    (f"{TO_FILE} --output {LONG}.html", "cannot write"),
    (f"show {PYTHON.replace('plain', 'plane')}", f"(available: {DEFINITION}, {CUDA}, {PYTHON})"),
    ("show qqqq", "no Definition, Solution or Trace is named 'qqqq' (available: "),
    ("show ../../etc/passwd", "is named '../../etc/passwd'"),
    ("show ''", "is named ''"),
    ("show @", "is named '@'"),
    (f"show {PYTHON}@batch=7", f"{PYTHON} has no Trace at 'batch=7' (available: batch=1, batch=8)"),
    (f"show {PYTHON[:-1]}@batch=1", f"is named '{PYTHON[:-1]}@batch=1' (available: "),
    *((f"solve --build --arch {arch}", f"{arch!r} is not a") for arch in ("sm_999", "sm_13", "hopper")),
    ("solve --solutions rigth_v2", f"no Solution with sources matches 'rigth_v2' (available: {CUDA}, {PYTHON})"),
    (f"try {LONG}.py", LONG),
    (f"{TRY} gone.py", "no such file: gone.py"),
    ("try kernel.py kernel.py --definition nonesuch", "no Definition 'nonesuch'"),
    *(
        (f"{TRY} kernel.py {option}", f"{option.partition(' ')[0]} is for one kernel; 2 are named")
        for option in ("--watch", "--call run", "--verbose --json")
    ),
    *(
        (f"{TRY} {option} {value}", f"{option} {float(value)}: must be")
        for option in ("--rtol", "--atol")
        for value in ("inf", "nan", "-1", "1e300", "4e38")
    ),
    (f"{TRY} --batch-sizes 1,2147483647", "--batch-sizes 2147483647: needs about"),
    (f"tune {LONG}", LONG),
    ("explain solutions", "solutions: this folder has no solution.toml"),
    ("new", "Missing argument 'LANGUAGE'"),
    ("validate nowhere", "no such folder: nowhere"),
    (f"validate {DEFINITION_FILE}", f"not a folder: {DEFINITION_FILE}"),
    ("validate definitions/norm", "not a dataset: definitions/norm"),
    ("workload --batch-sizes 99999999999", "batch sizes must be at most 2147483647"),
    ("workload --set eps=1e300", "eps must be 0 or a finite float32, not 1e+300"),
    ("workload --set eps=1e-50", "eps must be 0 or a finite float32, not 1e-50"),
    ("workload --set eps=-1e-6", "eps must be at least 0, not -1e-06"),
    ("workload --set eps=small", "--set eps=small: 'small' is not a number"),
    ("workload --set eps=true", "eps must be 0 or a finite float32, not True"),
    ("workload --set 1e-6", "--set '1e-6': expected NAME=VALUE"),
    ("workload --set eps=1 --set eps=2", "--set eps: given twice"),
    ("workload --set scale=2", "'scale' is not a scalar input (available: eps)"),
    ("workload --axes heads=2", "'heads' is not a variable axis (available: batch)"),
    ("workload --axes batch=two", "--axes: 'two' is not a positive integer"),
    ("workload --axes batch=2 --batch-sizes 3", "its batch size is 'batch', which has sizes already"),
]


UNREADABLE = [
    ("register wrong.py --name new_v1 --author ann", "wrong.py:1: "),
    ("register few.py --name new_v1 --author ann", "few.py: run() cannot be called as"),
    ("try binary.py", "binary.py: is not UTF-8 text"),
    (f"{MEASURE} wrong.py {PYTHON}", "wrong.py:1: "),
    (f"explain wrong.py --definition {DEFINITION}", "wrong.py:1: "),
]


@pytest.mark.parametrize(("command", "said"), UNREADABLE)
def test_a_kernel_that_cannot_be_read_is_at_fault_and_not_its_caller(fib, full_registry, command, said):
    Path("wrong.py").write_text("def run(:\n")
    Path("few.py").write_text("def run(): pass\n")
    Path("binary.py").write_bytes(b"\xff\xfe")
    before = files_of(full_registry.root)
    assert said in fib(*split(command)).kernel_fault
    assert files_of(full_registry.root) == before


@pytest.mark.parametrize(("command", "said"), REFUSED, ids=[command[:80] for command, _ in REFUSED])
def test_what_cannot_be_done_is_one_line_and_changes_nothing(fib, full_registry, command, said):
    Path("kernel.py").write_text(RIGHT)
    Path("folder.py").mkdir()
    Path("folder.py/mine").write_text("")
    (full_registry.layout.solutions / "ann" / "norm" / DEFINITION / "folder_v1").mkdir()
    before = files_of(full_registry.root)
    assert said.format(root=full_registry.root) in fib(*split(command)).refusal
    assert files_of(full_registry.root) == before
