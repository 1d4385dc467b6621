"""The Definition of a kernel: the one that its user or author names, else the registry's main one; never a guess."""

from pathlib import Path
from shlex import split

import pytest

from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import Registry
from support import paths
from support.registries import RIGHT, python_manifest

LLAMA, LAYERNORM = (find_operator(name).reference for name in ("rmsnorm_llama", "layernorm"))
FORGOT = "def run(x, eps):\n    return x\n"
FOUR = "def run(x, weight, bias, eps):\n    return x\n"
OTHERS = ("rmsnorm_bias", "rmsnorm_llama", "rmsnorm_no_weight", "layernorm", "layernorm_bias", "fused_add_rmsnorm")


@pytest.fixture
def registry(registry) -> Registry:
    """With rmsnorm_d128, and rmsnorm_d4096 as the main one of several."""
    for operator in ("rmsnorm", *OTHERS):
        registry.write_definition(find_operator(operator).define(4096))
    return registry


@pytest.fixture
def write(tmp_path):
    """Write a kernel, or a folder of one, and return its path."""

    def run(source: str, file: str = "kernel.py", manifest: str | None = None):
        path = paths.write(tmp_path / file, source)
        if manifest is None:
            return path
        (path.parent / "solution.toml").write_text(f"{manifest}{python_manifest('mine_v1')}")
        return path.parent

    return run


@pytest.fixture
def check(fib, registry):
    """Judge a kernel at two rows."""

    def run(path, *options):
        return fib("try", path, "--check", "--batch-sizes", "2", "--device", "cpu", *options)

    return run


def test_another_norm_fails_by_the_main_definition_and_passes_by_its_own(check, write):
    wrong = check(write(LAYERNORM, "layernorm_instead.py"))
    assert wrong.code == 1
    assert wrong.lines[-1].startswith("layernorm_instead.py FAILED as rmsnorm_d4096 on ")
    assert check(write(LAYERNORM), "--definition", "layernorm_d4096").code == 0
    named = check(write(f'"""A norm."""\n\n# definition: layernorm_d4096\n{LAYERNORM}'))
    assert named.code == 0 and named.lines[-1].startswith("kernel.py PASSED as layernorm_d4096 (")


def test_a_verdict_offers_the_definition_of_another_convention_by_an_option_that_works(check, write, registry):
    kernel = write(LLAMA)
    wrong = check(kernel)
    offer = "or choose the Definition of that convention: "
    assert wrong.code == 1 and offer in wrong.out
    option = " ".join(wrong.out.partition(offer)[2].split()[:2])
    assert option == "--definition rmsnorm_llama_d4096"
    assert check(kernel, *option.split()).code == 0


def test_the_manifest_of_a_folder_chooses(check, write):
    named = 'definitions = ["rmsnorm_llama_d4096"]\n'
    folder = write(LLAMA, "folder/kernel.py", named)
    for path in (folder, folder / "kernel.py"):
        right = check(path)
        assert right.code == 0, right.out
        assert f"{path.name} PASSED as rmsnorm_llama_d4096 (" in right.out
    several = check(write(LLAMA, "folder/kernel.py", 'definitions = ["rmsnorm_[bln]*_d4096"]\n'))
    assert several.code == 2 and several.err.count("\n") == 1
    assert "choose with --definition (available: rmsnorm_bias_d4096, rmsnorm_llama_d4096, " in several.err
    one = check(write(LLAMA, "folder/kernel.py", 'definitions = ["rmsnorm_[bl]*_d4096", "!*_bias_*"]\n'))
    assert one.code == 0, one.err
    home = check(write(LLAMA, "rmsnorm_llama_d4096/mine/kernel.py", 'definitions = ["rmsnorm_*d4096"]\n'))
    assert home.code == 0
    unknown = check(write(LLAMA, "folder/kernel.py", 'definitions = ["rmsnorm_lama_d4096"]\n'))
    assert unknown.code == 2 and "solution.toml: no Definition matches rmsnorm_lama_d4096 (" in unknown.err


def test_parameters_that_fit_another_definition_choose_nothing(check, write):
    kernel = write(FORGOT)
    said = check(kernel)
    assert (said.code, said.out) == (1, "")
    start = f"fib-rmsnorm: {kernel}: run(x, eps) does not fit rmsnorm_d4096, but:\n\n"
    assert said.err.startswith(start)
    tried = check(kernel, *split(said.err.removeprefix(start)))
    assert tried.code == 1 and tried.lines[-1].startswith("kernel.py FAILED as rmsnorm_no_weight_d4096 on ")


def test_each_definition_that_the_parameters_fit_is_offered(fib, check, write):
    said = check(write(FOUR), "--definition", "layernorm_d4096")
    offered = "--definition layernorm_bias_d4096\n--definition rmsnorm_bias_d4096\n\n"
    assert said.code == 1 and said.err.endswith(f"does not fit layernorm_d4096, but:\n\n{offered}")


def test_what_is_registered_is_filed_by_the_same_rule(fib, registry, write):
    cpp = "// A norm.\n// definition: layernorm_d4096\n"
    cpp += "void Run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {}\n"
    cpp += "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);\n"
    for name, source, file, asked, filed in (
        ("layernorm_python_mine_v1", RIGHT, "layernorm.py", (), "rmsnorm_d4096"),
        ("native_v1", cpp, "kernel.cpp", (), "layernorm_d4096"),
        ("small_v1", cpp, "kernel.cpp", ("--definition", "rmsnorm_d128"), "rmsnorm_d128"),
    ):
        outcome = fib("register", write(source, file), "--name", name, "--author", "ann", *asked)
        assert registry.packed_solutions()[name].definition == filed
        assert outcome.lines[1] == f"It is filed under {filed}, and not judged yet."


def test_a_line_that_names_an_unknown_definition_is_refused(check, write):
    kernel = write(f"\n# definition: layernorm_d4069\n{RIGHT}")
    said = check(kernel)
    assert said.code == 2 and said.err.startswith(f"fib-rmsnorm: {kernel}:2: no Definition 'layernorm_d4069' in ")


def test_the_main_definition_is_the_one_of_registry_toml(check, write, registry):
    (registry.root / "registry.toml").write_text('main_definition = "layernorm_d4096"\n')
    assert check(write(LAYERNORM)).code == 0
    (registry.root / "registry.toml").unlink()
    next(registry.layout.definitions.rglob("rmsnorm_d4096.json")).unlink()
    said = check(write(RIGHT))
    assert said.code == 2 and "nothing says for which Definition it is; choose with --definition (" in said.err


def test_a_new_kernel_is_of_the_main_definition_and_names_it(fib, registry):
    for file in ("layernorm.py", "kernel.cpp"):
        made = fib("new", "python" if file.endswith(".py") else "cpp", file)
        assert made.code == 0 and "rmsnorm_d4096" in made.lines[0]
        mark = "#" if file.endswith(".py") else "//"
        assert Path(file).read_text().startswith(f"{mark} definition: rmsnorm_d4096\n")
    assert fib("new", "triton", "a.py", "--definition", "layernorm_d4096").code == 0
    tried = fib("try", "a.py", "--check", "--batch-sizes", "2", "--device", "cpu")
    assert tried.code == 0 and tried.lines[-1].startswith("a.py PASSED as layernorm_d4096 (")
    assert "RuntimeWarning" not in tried.out, "of NumPy, by which Triton's interpreter adds infinities"
