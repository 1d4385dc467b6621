"""Sources that cannot be packed or tried: told in one line, which names the files."""

from __future__ import annotations

import os

from support.registries import RIGHT


def test_a_fifo_is_not_waited_for(fib, registry, tmp_path):
    kernel = tmp_path / "kernel.cpp"
    os.mkfifo(kernel)
    outcome = fib("try", kernel, "--root", registry.root, "--definition", "rmsnorm_d128", "--device", "cpu")
    assert (outcome.code, outcome.err) == (2, f"fib-rmsnorm: {kernel}: not a regular file or a folder\n")


def test_a_file_is_no_registry(fib, registry):
    (path,) = registry.layout.definitions.rglob("*.json")
    outcome = fib("list", "--root", path)
    assert outcome.code == 2 and f"not a registry: {path} is not a folder" in outcome.err


def test_a_dot_in_the_name_of_a_python_file(fib, registry, tmp_path):
    kernel = tmp_path / "norm.triton.py"
    kernel.write_text(RIGHT)
    outcome = fib("try", kernel, "--root", registry.root, "--definition", "rmsnorm_d128", "--device", "cpu", "--check")
    said = "Python cannot import a file with a dot in its name; rename it, for example to norm_triton.py"
    assert (outcome.code, outcome.err) == (2, f"fib-rmsnorm: {kernel}: {said}\n")
