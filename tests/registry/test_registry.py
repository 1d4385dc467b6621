"""A registry's root, names, records and main Definition, and how its records are chosen by name."""

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry.layout import Layout, find_root
from fib_rmsnorm.registry.selection import choose, choose_peers, write_main_definition
from fib_rmsnorm.registry.store import append_lines
from support.full_registry import make_trace
from support.registries import add_kernel, make_empty_registry


def test_traces_come_oldest_first_whichever_file_holds_them(registry):
    solution, workload = add_kernel(registry, "one_v1"), registry.workloads("rmsnorm_d128")[0]
    older, newer = (make_trace(solution, workload, timestamp=f"2026-01-0{day}T00:00:00+00:00") for day in (1, 2))
    registry.append_trace(newer, "ann", "norm")
    append_lines(registry.layout.published_file("norm", "rmsnorm_d128"), [older.model_dump_json()])
    assert registry.traces() == [older, newer]


@pytest.mark.parametrize("kind", ["definition", "solution"])
def test_a_name_used_twice_is_named_with_its_file(registry, kind):
    add_kernel(registry, "one_v1")
    root = registry.layout.definitions if kind == "definition" else registry.layout.solutions
    path = next(root.rglob("*.json"))
    shutil.copy(path, path.with_name("other.json"))
    with pytest.raises(InputError, match=rf"/other\.json .*both hold a {kind.capitalize()} named"):
        registry.definitions() if kind == "definition" else registry.packed_solutions()


def test_json_among_sources_is_not_a_solution(registry):
    add_kernel(registry, "one_v1")
    (registry.layout.solutions / "tester/norm/rmsnorm_d128/one_v1/tuned.json").write_text("{}")
    assert list(registry.packed_solutions()) == ["one_v1"]


UNSAFE = ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "-x", "a\nb", "a b", "a\0b", "é", "a" * 201, "~", "a\\b"]


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_name_is_refused_wherever_it_stands(name, tmp_path):
    layout = Layout(tmp_path)
    places = ((layout.definition, 2), (layout.workload_file, 2), (layout.trace_file, 3), (layout.solution, 4))
    for place, parts in places:
        for position in range(parts):
            with pytest.raises(InputError, match="not a safe name"):
                place(*(name if each == position else "safe" for each in range(parts)))


def test_find_root_prefers_what_it_is_given_then_the_variable(tmp_path, monkeypatch):
    here, named, given = (make_empty_registry(tmp_path / name).root for name in ("here", "named", "given"))
    monkeypatch.chdir(here)
    monkeypatch.setenv("FIB_RMSNORM_ROOT", str(named))
    assert find_root(given) == given
    assert find_root() == named
    monkeypatch.setenv("FIB_RMSNORM_ROOT", "")
    assert find_root() == here


def test_without_a_file_it_is_the_only_one_then_the_usual_one_then_none(registry):
    assert registry.main_definition == "rmsnorm_d128"
    registry.write_definition(RmsNorm().define(256))
    assert registry.main_definition is None
    registry.write_definition(RmsNorm().define(4096))
    assert registry.main_definition == "rmsnorm_d4096"


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


SOLUTIONS: list[Any] = [
    SimpleNamespace(name=name, definition=definition)
    for name, definition in (("a_quack_v1", "a"), ("a_torch_v1", "a"), ("b_quack_v1", "b"), ("c_torch_v1", "c"))
]


def test_a_glob_names_one_solution_of_each_definition_that_has_it():
    found = choose_peers(SOLUTIONS, ["a", "b", "c"], "*_quack_v1")
    assert {definition: peer.name for definition, peer in found.items()} == {"a": "a_quack_v1", "b": "b_quack_v1"}
    assert list(choose_peers(SOLUTIONS, ["b"], "*_quack_v1")) == ["b"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("layernrm_cpp_v3", "similar: layernorm_cpp_v3, "), ("nope", "available: layernorm_cpp_v0, layernorm_cpp_v1, ")],
)
def test_of_many_names_a_mistake_lists_a_few(wrong, told):
    names = [f"layernorm_cpp_v{number}" for number in range(100)]
    with pytest.raises(InputError) as refused:
        choose("Solution", names, str, [wrong])
    said = str(refused.value)
    assert said.startswith(f"no Solution matches {wrong!r} ({told}") and said.endswith("; 100 in all)")
    assert len(said) < 400
