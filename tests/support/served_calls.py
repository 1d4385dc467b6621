"""What serves the calls of norms whose kernel is known: C++, or Python where that is not compiled."""

from __future__ import annotations

import pytest

from fib_rmsnorm.functional import quick_calls


def serve_in_python(patch: pytest.MonkeyPatch) -> None:
    """Have Python serve them, as where C++ does not compile."""
    patch.setattr(quick_calls, "_native", None)
    patch.setattr(quick_calls, "native_run", None)
    patch.setattr(quick_calls, "load_native_calls", lambda: "not wanted")
    patch.setattr(quick_calls, "QUICK", {})
    patch.setattr("fib_rmsnorm.functional.eager.QUICK", quick_calls.QUICK)


@pytest.fixture(params=["Python", pytest.param("C++", marks=pytest.mark.compile)])
def served(request, monkeypatch):
    """Quick tests have Python serve them, since C++ takes most of a minute to compile; `make thorough` has C++."""
    if request.param == "Python":
        if request.node.get_closest_marker("compile"):
            pytest.skip("waits for compilers, and so is served by C++")
        serve_in_python(monkeypatch)
