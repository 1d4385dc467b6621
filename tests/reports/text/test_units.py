"""Numbers as people read them keep what tells them apart."""

from __future__ import annotations

import pytest

from fib_rmsnorm.reports.text.units import format_change, format_changes, format_ratio


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.00123, "0.0012x"),
        (0.034, "0.034x"),
        (0.0996, "0.10x"),
        (0.5, "0.50x"),
        (2, "2.00x"),
        (45.84, "45.8x"),
        (712, "712x"),
    ],
)
def test_a_ratio_never_reads_as_nothing(ratio, text):
    assert format_ratio(ratio) == text


def test_a_large_change_is_a_factor():
    assert [format_change(ratio) for ratio in (0.5, 1.1, 3.99, 36.8, 540)] == [
        "-50.0%",
        "+10.0%",
        "+299.0%",
        "36.8x",
        "540x",
    ]
    assert format_changes(0.7, 1.2) == "-30.0% to +20.0%" and format_changes(0.5, 540) == "0.50x to 540x"
