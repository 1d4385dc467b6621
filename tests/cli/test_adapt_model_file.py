"""`fib-rmsnorm adapt FILE`: a file in KernelBench's form is a Definition, and `try` judges a ModelNew by it."""

import json
from pathlib import Path

import pytest

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, slope=0.1):
        super().__init__()
        self.linear = nn.Linear(features, 3)
        self.slope = slope

    def forward(self, x, scale: float):
        return nn.functional.leaky_relu(self.linear(x), self.slope) * scale


def get_inputs():
    return [torch.rand(512, 64) * 2, 0.5]


def get_init_inputs():
    return [64]
"""
NEW = (
    MODEL.partition("\n\ndef get_inputs")[0]
    .replace("class Model(", "class ModelNew(")
    .replace("return nn", "y = x @ self.linear.weight.T + self.linear.bias\n        return nn")
    .replace("nn.functional.leaky_relu(self.linear(x), self.slope)", "torch.where(y > 0, y, self.slope * y)")
)


@pytest.fixture
def adapt(fib, registry):
    def call(text):
        Path("leaky.py").write_text(text)
        return fib("adapt", "leaky.py")

    return call


@pytest.mark.process
def test_a_model_becomes_a_definition_by_which_a_new_one_is_judged(adapt, fib, registry):
    outcome = adapt(MODEL)
    assert outcome.lines[-1] == "  fib-rmsnorm try SOLUTION.py --definition leaky", outcome.err
    definition = registry.definition("leaky")
    assert {name: spec.shape for name, spec in definition.inputs.items()} == {"x": ["batch", "d64"], "scale": None}
    assert {name: spec.shape for name, spec in definition.outputs.items()} == {"out": ["batch", "d3"]}
    assert [each.axes["batch"] for each in registry.workloads("leaky")] == [1, 8, 32, 128, 512]
    assert {each.inputs["scale"].value for each in registry.workloads("leaky")} == {0.5}
    assert adapt(MODEL).code == 0  # it is there already
    kernel = Path("new.py")
    for text, code, said in (
        (NEW, 0, "ModelNew(64)(x, scale) returns its outputs"),
        (NEW.replace("self.slope * y", "0 * y"), 1, "INCORRECT_NUMERICAL"),
        (NEW.replace("nn.Linear", "nn.Linear(5, 5) and nn.Linear"), 1, "INCORRECT_NUMERICAL"),  # after another seed
    ):
        kernel.write_text(text)
        judged = fib("try", kernel, "--definition", "leaky", "--check", "--batch-sizes", "8")
        assert judged.code == code and said in judged.out + judged.err


@pytest.mark.process
@pytest.mark.parametrize(("off", "code"), [("5e-5", 0), ("5e-4", 1)])
def test_a_loss_may_differ_as_in_kernelbench(adapt, fib, off, code):
    loss = MODEL.replace(" * scale", ".norm() / x.norm()").replace(", scale: float", "").replace(" * 2, 0.5", "")
    assert adapt(loss).code == 0
    Path("new.py").write_text(loss.replace("Model(", "ModelNew(").replace("x.norm()", f"x.norm() + {off}"))
    judged = fib("try", "new.py", "--definition", "leaky", "--check")
    assert judged.code == code, judged.out + judged.err
    assert "batch=128" in judged.out  # the registry's own Workloads


@pytest.mark.process
def test_a_size_that_cannot_vary_is_constant(adapt, registry):
    text = MODEL.replace("self.linear(x)", "self.linear(x).reshape(512, 3)")
    assert adapt(text).code == 0
    assert registry.definition("leaky").var_axes == [] and len(registry.workloads("leaky")) == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("torch.rand(512, 64)", "torch.rand(512, 64).softmax(1)", "x holds what _softmax made of it; a Workload"),
        ("def get_init_inputs", "def get_init", "has no get_init_inputs; a file in KernelBench's form has Model, get_"),
        ("return [64]", "return [64, float('inf')]", "get_init_inputs must make literals"),
        ("torch.rand(512, 64)", "torch.rand(512, 65)", "must have same reduction dim, but got"),
        ("import torch\n", "import torch\nopen('PLACE', 'w')\n", "Permission denied"),
    ],
)
def test_what_becomes_no_definition_is_refused_in_one_line(adapt, registry, tmp_path, was, now, said):
    place = tmp_path / "touched"
    refused = adapt(MODEL.replace(was, now.replace("PLACE", str(place)), 1))
    assert refused.code == 2 and said in refused.refusal and "\n" not in refused.refusal.strip()
    assert not place.exists() and "leaky" not in registry.definitions()


@pytest.mark.process
def test_another_definition_of_its_name_stays(adapt, registry):
    adapt(MODEL)
    refused = adapt(MODEL.replace("0.1", "0.2"))
    assert refused.code == 2 and "leaky is another Definition already" in refused.refusal
    path = registry.layout.definition("kernelbench", "leaky")
    assert "0.1" in json.loads(path.read_text())["reference"]
