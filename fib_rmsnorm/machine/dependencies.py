"""Find a Solution's missing `dependencies`, and the command that installs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution


_US = "fib-rmsnorm"
# Upstream's datasets name these as well, but no Python package provides them.
_NO_PACKAGES = ("cublas", "cudnn", "cutlass", "cuda")


def missing_dependency(solution: Solution) -> str | None:
    """The first dependency that is missing or too old, as a reason to skip the Solution; None if all are installed."""
    return next(filter(None, map(_missing, solution.spec.dependencies)), None)


def _missing(dependency: str) -> str | None:
    try:
        needed = Requirement(dependency)
    except InvalidRequirement:
        return None
    if needed.marker and not needed.marker.evaluate():
        return None
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        if needed.name.lower() in _NO_PACKAGES:
            return None
        return f"{needed.name} is missing; run: {_install(needed, None)}"
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"{needed.name} {installed} does not satisfy {needed.specifier}; run: {_install(needed, installed)}"


def _install(needed: Requirement, installed: str | None) -> str:
    """The command that installs a package: one of our extras if it provides the package, else the package itself."""
    for extra, offered in _offers():
        brings = installed is None or not offered.specifier.contains(installed, prereleases=True)
        if brings and canonicalize_name(offered.name) == canonicalize_name(needed.name):
            return f"pip install '{_US}[{extra}]'"
    return f"pip install '{needed}'"


def _offers() -> Iterator[tuple[str, Requirement]]:
    """The requirements of each of our extras; none if this package runs from a checkout that is not installed."""
    with suppress(PackageNotFoundError):
        found = metadata(_US)
        for line in found.get_all("Requires-Dist") or ():
            offered = Requirement(line)
            for extra in found.get_all("Provides-Extra") or ():
                if offered.marker and "extra" in str(offered.marker) and offered.marker.evaluate({"extra": extra}):
                    yield extra, offered
