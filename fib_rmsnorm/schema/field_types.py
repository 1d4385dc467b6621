"""The types that fields of several models have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

NonEmptyString = Annotated[str, Field(min_length=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
