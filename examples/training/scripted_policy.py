"""Reward 50 kernels of a scripted policy, which stands for a model: correct ones, wrong ones, crashes and cheats.

python examples/training/scripted_policy.py --device cpu
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

from fib_rmsnorm import KernelReward, Registry, Service
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry.workload_generation import generate_workloads
from fib_rmsnorm.schema import Settings

COMPLETION = """Attempt {number}:
```python
import torch
{before}

def run(x, weight, eps):
    {first}
    x_fp32 = x.float()
    mean_square = {mean_square}
    rstd = {rstd}
    return {out}
```
"""
CORRECT = {
    "before": "",
    "first": "pass",
    "mean_square": "x_fp32.pow(2).mean(dim=-1, keepdim=True)",
    "rstd": "torch.rsqrt(mean_square + eps)",
    "out": "(x_fp32 * rstd * weight.float()).to(x.dtype)",
}
TRITON = """Attempt {number}, in Triton:
```python
import torch
import triton
import triton.language as tl

@triton.jit
def norm_row(x_ptr, weight_ptr, out_ptr, eps, hidden, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < hidden
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / hidden + eps)
    tl.store(out_ptr + row * hidden + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)

def run(x, weight, eps, out):
    hidden = x.shape[1]
    norm_row[(x.shape[0],)](x, weight, out, eps, hidden, BLOCK=triton.next_power_of_2(hidden), num_warps={num_warps})
```
"""
CHANGES = {
    "correct": [
        {},
        {"rstd": "1 / (mean_square + eps).sqrt()"},
        {"mean_square": "(x_fp32 * x_fp32).sum(dim=-1, keepdim=True) / x.shape[-1]"},
        {"out": "torch.nn.functional.rms_norm(x_fp32, x.shape[-1:], weight.float(), eps).to(x.dtype)"},
        {"first": "sum(float(number) for number in range(20_000))"},  # slow
    ],
    "wrong": [
        {"rstd": "torch.rsqrt(mean_square)"},
        {"rstd": "1 / (mean_square.sqrt() + eps)"},
        {"rstd": "torch.rsqrt(mean_square + 1e-6)"},
        {"mean_square": "x_fp32[:, :-8].pow(2).mean(dim=-1, keepdim=True)"},
        {"mean_square": "x_fp32.var(dim=-1, keepdim=True)"},
        {"out": "(x_fp32 * rstd).to(x.dtype)"},
        {"out": "x_fp32 * rstd * weight.float()"},
        {"out": "torch.zeros_like(x)"},
    ],
    "crash": [
        {"first": "raise ValueError('not today')"},
        {"first": "__import__('ctypes').string_at(0)"},
        {"first": "__import__('os')._exit(0)"},
        {"out": "x_fp32 @ weight.float().T.T.unsqueeze(0)"},
        {"before": "import a_module_that_nobody_has"},
        {"before": "def run(x, weight, eps"},
    ],
    "cheat": [
        {"before": "torch.equal = lambda *_: True"},
        {"first": "torch.Tensor.clone = lambda self, **_: self"},
        {"first": "import time; now = time.perf_counter(); time.perf_counter = lambda: now"},
        {"first": "import builtins; builtins.min = lambda *_, **__: 0"},
        {"first": "import gc; gc.callbacks.append(lambda *_: None)"},
        {
            "before": "KEPT = {}",
            "first": "key = str(x.tolist()), str(weight.tolist()), eps",
            "out": "KEPT.setdefault(key, (x_fp32 * rstd * weight.float()).to(x.dtype))",
        },
    ],
}


def write_kernels(count, seed=0):
    """The kinds of kernels and the completions, in a random order."""
    chooser = random.Random(seed)
    written = []
    for number in range(count):
        kind = list(CHANGES)[number % len(CHANGES)]
        changes = CHANGES[kind][number // len(CHANGES) % len(CHANGES[kind])]
        text = COMPLETION.format(number=number, **CORRECT | changes)
        if kind == "correct" and number % 3 == 0:
            text = TRITON.format(number=number, num_warps=2 ** chooser.randint(0, 3))
        written.append((kind, text))
    chooser.shuffle(written)
    return written


def make_registry(root, hidden, batch_sizes):
    for folder in ("definitions", "solutions"):
        (root / folder).mkdir()
    registry, definition = Registry(root), RmsNorm().define(hidden)
    registry.write_definition(definition)
    registry.write_workloads(definition, generate_workloads(definition, batch_sizes))
    return registry, definition


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="auto", help="as for `fib-rmsnorm bench`")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[8])
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="print each verdict as JSON")
    options = parser.parse_args()
    kinds, completions = zip(*write_kernels(options.kernels), strict=True)
    with tempfile.TemporaryDirectory() as folder:
        registry, definition = make_registry(Path(folder), options.hidden, options.batch_sizes)
        with Service(registry, device=options.device, settings=Settings(iterations=20)) as service:
            found = KernelReward(service, definition.name).judge(completions)
    if options.json:
        print(json.dumps([{"kind": kind, **vars(kernel)} for kind, kernel in zip(kinds, found, strict=True)]))
        return
    for kind in CHANGES:
        some = [kernel for its_kind, kernel in zip(kinds, found, strict=True) if its_kind == kind]
        rewards = [kernel.reward for kernel in some]
        print(f"{kind:<8} {len(some):>3} kernels, rewards {min(rewards):.3f} to {max(rewards):.3f}")
        for said in sorted({kernel.mistake for kernel in some if kernel.mistake}):
            print(f"         {said[:100]}")


if __name__ == "__main__":
    main()
