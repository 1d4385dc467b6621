"""Whether the installed flashinfer-bench reads a record: its models may differ from those that the schema repeats."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from fib_rmsnorm.registry.validation.faults import list_faults


def find_refusals(text: str, model: type[BaseModel]) -> list[str]:
    """Read a record's JSON by flashinfer-bench's model of the same name, and return each of its objections."""
    import flashinfer_bench
    from flashinfer_bench import data

    try:
        getattr(data, model.__name__).model_validate_json(text)
    except ValidationError as error:
        return [f"flashinfer-bench {flashinfer_bench.__version__} refuses it: {fault}" for fault in list_faults(error)]
    return []
