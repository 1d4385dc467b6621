"""What a call of a norm costs the host, in us, by each way in: the kernel itself, the function, the module, torch.

    python experiments/measure_norm_calls.py [--device cuda] [--rounds 200] [--only "both passes"] [--json]

So are the norm of x + residual, LayerNorm, and a forward with its backward pass, each beside torch's. Their gradients
are compared with those of float64.

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
from typing import Any

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
HIDDEN, ROWS = 4096, (1, 128, 4096)

Ways = dict[str, Callable[[], Any]]


def add_and_norm(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of the sum, and the sum, by torch."""
    total = x + residual
    return functional.rms_norm(total, weight.shape, weight, EPS), total


NORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "norm": (lambda x, weight: rms_norm(x, weight, EPS), lambda x, w: functional.rms_norm(x, w.shape, w, EPS)),
    "norm without weight": (lambda x: rms_norm(x, None, EPS), lambda x: functional.rms_norm(x, x.shape[1:], None, EPS)),
    "residual": (lambda x, w, r: rms_norm(x, w, EPS, residual=r)[0], lambda x, w, r: add_and_norm(x, w, r)[0]),
    "residual, sum used": (lambda x, w, r: rms_norm(x, w, EPS, residual=r), add_and_norm),
    "LayerNorm": (layer_norm, lambda x, w, b: functional.layer_norm(x, w.shape, w, b)),
}
"""Each by our function and by torch's."""


def list_leaves(x: torch.Tensor, weight: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    """What each norm takes, with gradients."""
    x, residual, weight, bias = (
        each.detach().requires_grad_() for each in (x, torch.randn_like(x), weight, torch.zeros_like(weight))
    )
    with_residual = {name: [x, weight, residual] for name in NORMS if name.startswith("residual")}
    return {"norm": [x, weight], "norm without weight": [x], "LayerNorm": [x, weight, bias], **with_residual}


def list_ways(x: torch.Tensor, weight: torch.nn.Parameter) -> Ways:
    """The ways in by name, those with gradients last."""
    kernel = why(x, weight).kernel
    if kernel is None:
        raise SystemExit(f"no kernel serves:\n{why(x, weight)}")
    entry, given, residual, dy = kernel.entry, torch.empty_like(x), torch.randn_like(x), torch.randn_like(x)
    modules = {
        whose: of.RMSNorm(HIDDEN, EPS, device=x.device, dtype=x.dtype)
        for whose, of in {"module": nn, "torch's module": torch.nn}.items()
    }
    ways: Ways = {
        "kernel, out given": lambda: entry(x, weight, EPS, given),
        "kernel, out allocated": lambda: entry(x, weight, EPS, torch.empty_like(x)),
        "operator (torch.ops)": lambda: norm(x, weight, None, EPS, "torch"),
        "residual, operator": lambda: add_norm(x, residual, weight, None, EPS, "torch"),
        **{name: partial(module, x) for name, module in modules.items()},
    }
    ways |= {f"{name}{_GRADIENT}": ways[name] for name in modules}
    for name, leaves in list_leaves(x, weight).items():
        for whose, forward in zip(("", ", torch's"), NORMS[name], strict=True):
            ways[f"{name}{whose}"] = ways[f"{name}{whose}{_GRADIENT}"] = partial(forward, *leaves)
            ways[f"{name}{whose}, both passes{_GRADIENT}"] = partial(differentiate, forward, leaves, dy)
    return ways


def differentiate(
    forward: Callable[..., Any], leaves: list[torch.Tensor], dy: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The gradients of all that a norm takes, from that of each of its outputs."""
    out = forward(*leaves)
    outputs = (out,) if isinstance(out, torch.Tensor) else out
    return torch.autograd.grad(outputs, leaves, [dy] * len(outputs))


def largest_errors(x: torch.Tensor, weight: torch.Tensor) -> dict[str, list[float]]:
    """By norm, the largest errors of our gradients and of torch's, in units of float64's largest."""
    found, dy = {}, torch.randn_like(x)
    for name, leaves in list_leaves(x, weight).items():
        wide = [each.detach().double().requires_grad_() for each in leaves]
        exact = differentiate(NORMS[name][1], wide, dy.double())
        found[name] = [
            max(
                ((each - right).abs().max() / right.abs().max()).item()
                for each, right in zip(differentiate(forward, leaves, dy), exact, strict=True)
            )
            for forward in NORMS[name]
        ]
    return found


def measure(ways: Ways, device: torch.device, calls: int, rounds: int) -> dict[str, float]:
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
    parser.add_argument("--only", default="", metavar="PART", help="of the ways' names")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    found, errors = {}, {}
    for rows in ROWS:
        x = torch.randn(rows, HIDDEN, device=device).half()
        weight = torch.nn.Parameter(torch.ones(HIDDEN, device=device, dtype=torch.float16))
        is_large = device.type == "cpu" and rows > 1
        calls, rounds = (LARGE_CALLS, LARGE_ROUNDS) if is_large else (CALLS, options.rounds)
        shape = f"{rows} x {HIDDEN}"
        errors[shape] = largest_errors(x, weight)
        ways = {name: way for name, way in list_ways(x, weight).items() if options.only in name}
        found[shape] = measure(ways, device, calls, rounds)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if options.json:
        print(json.dumps({"device": model_of(device), "load": load, "us": found, "errors": errors}, indent=2))
        return
    print(why(x, weight))
    print(f"{model_of(device)}, torch {torch.__version__}, float16, us per call; load {load:.1f} per core")
    names = dict.fromkeys(name for us in found.values() for name in us)
    print(f"{'':52}" + "".join(f"{shape:>14}" for shape in found))
    for name in names:
        print(f"{name:52}" + "".join(f"{us[name]:14.2f}" for us in found.values()))
    for name in NORMS:
        shown = ["{:.1e} / {:.1e}".format(*each[name]) for each in errors.values()]
        print(f"{f'largest error of a gradient, {name}':52}" + "".join(f"{each:>20}" for each in shown))


if __name__ == "__main__":
    main()
