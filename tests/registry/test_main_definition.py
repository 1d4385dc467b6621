from __future__ import annotations

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry.main_definition import write_main_definition


def add(registry, *hidden: int) -> None:
    for each in hidden:
        registry.write_definition(RmsNorm().define(each))


def test_without_a_file_it_is_the_only_one_then_the_usual_one_then_none(registry):
    assert registry.main_definition == "rmsnorm_d128"
    add(registry, 256)
    assert registry.main_definition is None
    add(registry, 4096)
    assert registry.main_definition == "rmsnorm_d4096"


def test_the_file_decides_and_is_replaced(registry):
    add(registry, 256, 4096)
    for name in ("rmsnorm_d256", "rmsnorm_d128"):
        write_main_definition(registry.root, name)
        assert registry.main_definition == name


def test_a_file_that_says_the_same_keeps_what_its_user_wrote(registry):
    registry.layout.registry_file.write_text('main_definition = "rmsnorm_d128" # mine\n')
    write_main_definition(registry.root, "rmsnorm_d128")
    assert registry.layout.registry_file.read_text() == 'main_definition = "rmsnorm_d128" # mine\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('main_definition = "rmsnorm_d129"', "main_definition: no Definition 'rmsnorm_d129' (available: rmsnorm_d128)"),
        ('main_definition = "../../etc"', "main_definition: no Definition '../../etc' (available: rmsnorm_d128)"),
        ("main_definition = 128", 'expected main_definition = "NAME OF A DEFINITION"'),
        ("", 'expected main_definition = "NAME OF A DEFINITION"'),
        ('main_definitions = "rmsnorm_d128"', "unknown key 'main_definitions' (available: main_definition)"),
        ("main_definition = rmsnorm_d128", "Invalid value (at line 1, column 19)"),
        ("#" * (1 << 20), "is larger than 1 MiB, so it is not a record"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_a_faulty_file_is_one_clear_line(registry, content, said):
    path = registry.layout.registry_file
    path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
    with pytest.raises(InputError) as caught:
        _ = registry.main_definition
    assert str(caught.value) == f"{path}: {said}"
    write_main_definition(registry.root, "rmsnorm_d128")  # which mends it
    assert registry.main_definition == "rmsnorm_d128"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_neither_followed_nor_replaced(registry, tmp_path, there):
    target = tmp_path / "elsewhere.toml"
    if there:
        target.write_text('main_definition = "rmsnorm_d128"\n')
    registry.layout.registry_file.symlink_to(target)
    with pytest.raises(InputError, match="is a link, which could lead out of the registry"):
        _ = registry.main_definition
    with pytest.raises(InputError, match="is a link, which could lead out of the registry"):
        write_main_definition(registry.root, "rmsnorm_d128")
    assert registry.layout.registry_file.is_symlink() and target.exists() == there
