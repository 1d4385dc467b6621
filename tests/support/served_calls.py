"""What serves the calls of norms whose kernel is known: C++, or torch's formulas where that is not compiled."""

from __future__ import annotations

import pytest

from fib_rmsnorm.functional import custom_ops


def serve_in_python(patch: pytest.MonkeyPatch) -> None:
    """Have torch serve them, as where C++ does not compile."""
    custom_ops.forget_quick_calls()
    patch.setattr(custom_ops, "_native", None)
    patch.setattr(custom_ops, "quick_norm", custom_ops._know_nothing)
    patch.setattr(custom_ops, "load_native_calls", lambda: "not wanted")


@pytest.fixture(params=["Python", pytest.param("C++", marks=pytest.mark.compile)])
def served(request, monkeypatch):
    """Quick tests have torch serve them, since C++ takes most of a minute to compile; `make thorough` has C++."""
    if request.param == "Python":
        if request.node.get_closest_marker("compile"):
            pytest.skip("waits for compilers, and so is served by C++")
        serve_in_python(monkeypatch)
