"""Numbers as people read them keep what tells them apart."""

from fib_rmsnorm.reports.text.units import format_change, format_changes, format_ratio


def test_a_ratio_never_reads_as_nothing():
    shown = {
        0.00123: "0.0012x",
        0.034: "0.034x",
        0.0996: "0.10x",
        0.5: "0.50x",
        2: "2.00x",
        45.84: "45.8x",
        712: "712x",
    }
    assert {ratio: format_ratio(ratio) for ratio in shown} == shown


def test_a_large_change_is_a_factor():
    shown = {0.5: "-50.0%", 1.1: "+10.0%", 3.99: "+299.0%", 36.8: "36.8x", 540: "540x"}
    assert {ratio: format_change(ratio) for ratio in shown} == shown
    assert format_changes(0.7, 1.2) == "-30.0% to +20.0%" and format_changes(0.5, 540) == "0.50x to 540x"
