"""Turn a failed validation of the schema into a list of faults, one for each thing to fix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fib_rmsnorm.schema import AxisConst, AxisVar, RandomInput, SafetensorsInput, ScalarInput

Field = tuple[int | str, ...]

# pydantic tries every form of a union and reports a fault for each; these names tell which form it tried.
_FORMS = {form.__name__ for form in (AxisConst, AxisVar, RandomInput, SafetensorsInput, ScalarInput)}
_NUMBERS = {"int", "float", "bool"}


@dataclass(frozen=True)
class Fault:
    """One field of a record that does not fit the schema."""

    field: Field
    message: str
    line: int | None = None
    """The line in the record's text, if the text is not JSON."""

    def __str__(self) -> str:
        where = ".".join(str(part) for part in self.field)
        return f"{where}: {self.message}" if where else self.message


def list_faults(error: ValidationError) -> list[Fault]:
    """Return each fault once. For a union, report only the form that its `type` names."""
    faults: list[Fault] = []
    unions: dict[Field, dict[str, list[ErrorDetails]]] = {}
    for details in error.errors(include_url=False):
        field = details["loc"]
        form = next((index for index, part in enumerate(field) if part in _FORMS), None)
        if form is None:
            faults.append(_fault(field, details))
        else:
            unions.setdefault(field[:form], {}).setdefault(str(field[form]), []).append(details)
    for field, forms in unions.items():
        faults += _union_faults(field, forms)
    return list(dict.fromkeys(faults))


def _union_faults(field: Field, forms: dict[str, list[ErrorDetails]]) -> list[Fault]:
    meant = [found for found in forms.values() if not any(d["type"] == "literal_error" for d in found)]
    if len(meant) != 1:
        return [Fault(field, f"must be one of {', '.join(forms)}")]
    return [_fault(field + details["loc"][len(field) + 1 :], details) for details in meant[0]]


def _fault(field: Field, details: ErrorDetails) -> Fault:
    message = " ".join(details["msg"].split()).removeprefix("Value error, ")
    if details["type"] == "json_invalid":
        place = re.search(r" at line (\d+) column (\d+)$", message)
        if place:
            return Fault(field, f"{message[: place.start()]} (column {place[2]})", int(place[1]))
    if field and field[-1] in _NUMBERS:
        return Fault(field[:-1], "must be a number or a boolean")
    return Fault(field, message)
