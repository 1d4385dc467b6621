"""Name Workloads by their axes; add the scalars, then the uuid, where another one has the same axes."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fib_rmsnorm.schema import Workload

_SHOWN_OF_UUID = 8


class NamedWorkload(NamedTuple):
    """The parts of a Workload's name."""

    uuid: str
    axes: Mapping[str, int]
    scalars: Mapping[str, float]

    @staticmethod
    def of(workload: Workload) -> "NamedWorkload":
        """The name of a Workload, by its record."""
        scalars = {name: given.value for name, given in workload.inputs.items() if given.type == "scalar"}
        return NamedWorkload(workload.uuid, workload.axes, scalars)

    def title(self, *, has_scalars: bool = False, has_uuid: bool = False) -> str:
        """`batch=8`; `batch=8, eps=1e-06, 3f2a9b1c`."""
        parts = [f"{name}={value}" for name, value in self.axes.items()]
        parts += [f"{name}={value:g}" for name, value in self.scalars.items() if has_scalars]
        return ", ".join([*parts, self.uuid[:_SHOWN_OF_UUID]] if has_uuid else parts) or self.uuid


def title_workloads(workloads: Iterable[NamedWorkload]) -> dict[str, str]:
    """A title for each Workload of a Definition that tells it from the others, by uuid."""
    named = {each.uuid: each for each in workloads}
    titles: dict[str, str] = {}
    for has_scalars, has_uuid in ((False, False), (True, False), (True, True)):
        titles = {uuid: each.title(has_scalars=has_scalars, has_uuid=has_uuid) for uuid, each in named.items()}
        if len(set(titles.values())) == len(titles):
            break
    return titles


def title_by_definition(workloads: Iterable[tuple[str, NamedWorkload]]) -> dict[str, dict[str, str]]:
    """The titles of Workloads that come with their Definition's name: by Definition, then by uuid."""
    groups: dict[str, list[NamedWorkload]] = {}
    for definition, workload in workloads:
        groups.setdefault(definition, []).append(workload)
    return {definition: title_workloads(mine) for definition, mine in groups.items()}


def show_name(owner: str, title: str) -> str:
    """A Solution or a Definition on a Workload, as `fib-rmsnorm show` finds it: `rmsnorm_triton_row_v1@batch=8`."""
    return f"{owner}@{title.replace(' ', '')}"
