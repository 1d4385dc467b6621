"""Rooflines, and the quantiles of intervals."""

from statistics import NormalDist

import pytest

from fib_rmsnorm.analysis.loading import load
from fib_rmsnorm.analysis.results import find_results, peak_of
from fib_rmsnorm.analysis.roofline import analyze_section
from fib_rmsnorm.machine.gpu_models import GPU_MODELS, find_gpu_model
from fib_rmsnorm.operators import RmsNorm, count_cost
from fib_rmsnorm.student_t import t_quantile
from support.paths import PUBLISHED, REPOSITORY
from support.trace_json import records, trace, trace_set

DEFINITION = RmsNorm().define(4096)


def roofline(*traces, definition=DEFINITION):
    (section,) = find_results(trace_set(*traces))
    return analyze_section(section, definition)


def test_the_ridge_comes_from_the_measured_clock():
    assert roofline(trace()).ridge == pytest.approx(2 * 128 * 132 * 1980e6 / 4814.304e9)
    slow = roofline(trace(clock=990.0))
    assert slow.ridge == pytest.approx(128 * 132 * 1980e6 / 4814.304e9)


def test_what_takes_longest_bounds():
    found = roofline(*(trace(batch=batch, latency_ms=0.3) for batch in (1, 512, 65536)))
    assert [each.bound for each in found.workloads] == ["launch", "memory", "memory"]
    assert [each.fits_l2 for each in found.workloads] == [True, True, False]
    moved = [(batch * 2 + 1) * 4096 * 2 for batch in (1, 512, 65536)]
    assert [each.memory_ms for each in found.workloads] == pytest.approx([each / 4814.304e6 for each in moved])


def test_an_unknown_operator_has_no_cost_unless_a_trace_tells_which_judged_it():
    assert roofline(trace(), definition=None).workloads[0].cost is None
    relu = DEFINITION.model_copy(update={"reference": "def run(x, weight, eps):\n    return x.relu()\n"})
    by_the_reference = trace()
    by_the_reference["evaluation"]["judged_by"] = "reference"
    assert roofline(trace(), definition=relu).workloads[0].cost is None
    assert roofline(by_the_reference, definition=relu).workloads[0].cost is None
    other = DEFINITION.model_copy(update={"reference": "from mine import run\n\n\ndef run(a, b, c): ...\n"})
    judged = trace(batch=512)
    judged["evaluation"]["judged_by"] = "rmsnorm"
    assert roofline(judged, definition=other).workloads[0].cost == count_cost(DEFINITION, {"batch": 512})


@pytest.mark.parametrize(
    ("hardware", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA_H100", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 80 GB SXM"),
        ("NVIDIA_A100_80GB", "A100 80 GB SXM"),
        ("NVIDIA A800-SXM4-80GB", "A100 80 GB SXM"),
        ("NVIDIA A100 80GB PCIe", "A100 80 GB PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100 40 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD_Instinct_MI355X", "MI355X"),
        ("NVIDIA H100 NVL", None),
        ("Intel(R) Xeon(R) Processor (2 cores)", None),
    ],
)
def test_devices_are_known_by_the_names_that_drivers_give(hardware, name):
    device = find_gpu_model(hardware)
    assert (device.name if device else None) == name


def test_the_recorded_peak_comes_before_the_datasheet():
    (found,) = records(trace())
    assert peak_of(found).gb_per_s == 4814.304
    found.peak_bandwidth_gb_per_s = None
    assert peak_of(found).source == "datasheet of the H200"
    assert len({device.name for device in GPU_MODELS}) == len(GPU_MODELS)


@pytest.mark.parametrize("file", [PUBLISHED, REPOSITORY / "docs" / "data" / "h200.jsonl"], ids=["H100", "H200"])
def test_the_datasheet_says_what_devices_reported(file):
    reported = [each for each in load(file) if each.peak_bandwidth_gb_per_s]
    for each in reported:
        model = find_gpu_model(each.hardware)
        assert model.bandwidth_gb_per_s == pytest.approx(each.peak_bandwidth_gb_per_s, rel=0.005)
    assert len(reported) > 20


def test_quantiles_are_those_of_the_tables():
    table = {1: 12.706, 3: 3.182, 30: 2.042}
    assert {freedom: round(t_quantile(0.95, freedom), 3) for freedom in table} == table
    assert t_quantile(0.95, 10**6) == NormalDist().inv_cdf(0.975)
