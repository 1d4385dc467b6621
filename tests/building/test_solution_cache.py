from __future__ import annotations

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from support.registries import RIGHT, WRONG, add_kernel


def test_equal_sources_share_a_folder_and_no_others_do(registry):
    first, equal, other = (
        add_kernel(registry, name, source) for name, source in (("a_v1", RIGHT), ("b_v1", RIGHT), ("c_v1", WRONG))
    )
    assert solution_cache(first) == solution_cache(equal) != solution_cache(other)
    assert solution_cache(first).is_dir()


def test_every_compiler_keeps_its_files_there(tmp_path):
    found = {name: value for name, value in cache_variables(tmp_path).items() if not value.isdigit()}
    assert len(set(found.values())) == len(found) >= 10
    assert all(value.startswith(f"{tmp_path}/") for value in found.values())
