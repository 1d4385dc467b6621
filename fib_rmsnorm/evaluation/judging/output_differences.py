"""What the judge says of one output. Without torch: the scheduler reads it too."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Comparison:
    """The differences between one output and the expected one."""

    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    mismatched: int = 0
    elements: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    worst: str = ""
    """A description of the element whose error exceeds its bound the most; empty if none does."""
    failing_kinds: list[str] = field(default_factory=list)
    wrong_rows: list[int] = field(default_factory=list)
    """The numbers of the first rows with a wrong element."""
    bias: float = 0.0
    """By how much the magnitudes of all elements together are too large, relative to their sum; less than 0 if they
    are too small."""
    allowed_bias: float = float("inf")
    """The largest bias of right outputs."""

    @property
    def is_biased(self) -> bool:
        """Whether elements that are each within the tolerance are too large, or too small, on average."""
        return abs(self.bias) > self.allowed_bias

    @property
    def is_wrong(self) -> bool:
        """Whether an element exceeds its bound, or all of them together."""
        return self.mismatched > 0 or self.is_biased
