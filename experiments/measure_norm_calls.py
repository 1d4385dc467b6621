"""What a call of a norm costs the host, in us, by each way in: the kernel itself, the function, the module, torch.

    python experiments/measure_norm_calls.py [--device cuda] [--rounds 200] [--json]

So are the norm of x + residual, LayerNorm, and a forward with its backward pass, each beside torch's.

Each figure is the fastest of many rounds in which all ways take turns, so it holds on a busy machine too. On a GPU a
round is timed until its calls return, with an idle GPU before, so that no call waits for a full queue. On a CPU a call
computes too: what a way in adds is its time less the kernel's.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from timeit import timeit

import torch
from torch.nn import functional

from fib_rmsnorm import nn
from fib_rmsnorm.deployment.kernels import model_of
from fib_rmsnorm.functional import layer_norm, rms_norm, why
from fib_rmsnorm.functional.custom_ops import add_norm, norm

EPS = 1e-6
CALLS, ROUNDS = 200, 200
LARGE_CALLS, LARGE_ROUNDS = 1, 5
"""On a CPU, for a shape that takes milliseconds."""
_GRADIENT = ", with gradient"
SHAPES = ((1, 4096), (4096, 4096))


def list_ways(x: torch.Tensor, weight: torch.nn.Parameter) -> dict[str, Callable[[], object]]:
    """The ways in by name, those with gradients last."""
    kernel = why(x, weight).kernel
    if kernel is None:
        raise SystemExit(f"no kernel serves:\n{why(x, weight)}")
    entry, given = kernel.entry, torch.empty_like(x)
    module = nn.RMSNorm(x.shape[1], EPS, device=x.device, dtype=x.dtype)
    torchs = torch.nn.RMSNorm(x.shape[1], EPS, device=x.device, dtype=x.dtype)
    shape = tuple(weight.shape)
    ways = {
        "kernel, out given": lambda: entry(x, weight, EPS, given),
        "kernel, out allocated": lambda: entry(x, weight, EPS, torch.empty_like(x)),
        "function": lambda: rms_norm(x, weight, EPS),
        "module": lambda: module(x),
        "operator (torch.ops)": lambda: norm(x, weight, None, EPS, "torch"),
        "torch's function": lambda: functional.rms_norm(x, shape, weight, EPS),
        "torch's module": lambda: torchs(x),
    }
    with_gradient = {name: ways[name] for name in ("function", "module", "torch's function", "torch's module")}
    ways |= list_other_norms(x, weight)
    return {**ways, **{f"{name}{_GRADIENT}": way for name, way in with_gradient.items()}, **list_both_passes(x, weight)}


def list_other_norms(x: torch.Tensor, weight: torch.nn.Parameter) -> dict[str, Callable[[], object]]:
    """The norm of x + residual and LayerNorm, each beside torch's."""
    residual, bias, shape = torch.randn_like(x), torch.zeros_like(weight), tuple(weight.shape)
    return {
        "residual, function": lambda: rms_norm(x, weight, EPS, residual=residual),
        "residual, operator": lambda: add_norm(x, residual, weight, None, EPS, "torch"),
        "residual, torch's two": lambda: functional.rms_norm(x + residual, shape, weight, EPS),
        "LayerNorm, function": lambda: layer_norm(x, weight, bias),
        "LayerNorm, torch's": lambda: functional.layer_norm(x, shape, weight, bias),
    }


def list_both_passes(x: torch.Tensor, weight: torch.nn.Parameter) -> dict[str, Callable[[], object]]:
    """A forward and its backward pass by each way in."""
    x = x.clone().requires_grad_()
    residual, bias = torch.randn_like(x).requires_grad_(), torch.nn.Parameter(torch.zeros_like(weight))
    dy, shape = torch.randn_like(x), tuple(weight.shape)
    passes: dict[str, tuple[Callable[[], torch.Tensor], tuple[torch.Tensor, ...]]] = {
        "norm": (lambda: rms_norm(x, weight, EPS), (x, weight)),
        "norm, torch's": (lambda: functional.rms_norm(x, shape, weight, EPS), (x, weight)),
        "residual": (lambda: rms_norm(x, weight, EPS, residual=residual)[0], (x, weight, residual)),
        "residual, torch's": (lambda: functional.rms_norm(x + residual, shape, weight, EPS), (x, weight, residual)),
        "LayerNorm": (lambda: layer_norm(x, weight, bias), (x, weight, bias)),
        "LayerNorm, torch's": (lambda: functional.layer_norm(x, shape, weight, bias), (x, weight, bias)),
    }
    return {
        f"{name}, both passes{_GRADIENT}": partial(_run_both, forward, leaves, dy)
        for name, (forward, leaves) in passes.items()
    }


def _run_both(forward: Callable[[], torch.Tensor], leaves: tuple[torch.Tensor, ...], dy: torch.Tensor) -> object:
    return torch.autograd.grad(forward(), leaves, dy)


def measure(ways: dict[str, Callable[[], object]], device: torch.device, calls: int, rounds: int) -> dict[str, float]:
    """Microseconds of each way."""
    fastest = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds + 1):
        for name, way in ways.items():
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            with torch.set_grad_enabled(name.endswith(_GRADIENT)):
                fastest[name] = min(fastest[name], timeit(way, number=calls) / calls * 1e6)
    return fastest


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of calls, each way in turn; default: 200")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    found = {}
    for rows, hidden in SHAPES:
        x = torch.randn(rows, hidden, device=device).half()
        weight = torch.nn.Parameter(torch.ones(hidden, device=device, dtype=torch.float16))
        is_large = device.type == "cpu" and rows > 1
        calls, rounds = (LARGE_CALLS, LARGE_ROUNDS) if is_large else (CALLS, options.rounds)
        found[f"{rows} x {hidden}"] = measure(list_ways(x, weight), device, calls, rounds)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if options.json:
        print(json.dumps({"device": model_of(device), "load": load, "us": found}, indent=2))
        return
    print(f"{model_of(device)}, torch {torch.__version__}, float16, us per call; load {load:.1f} per core")
    names = dict.fromkeys(name for us in found.values() for name in us)
    print(f"{'':44}" + "".join(f"{shape:>14}" for shape in found))
    for name in names:
        print(f"{name:44}" + "".join(f"{us[name]:14.2f}" for us in found.values()))


if __name__ == "__main__":
    main()
