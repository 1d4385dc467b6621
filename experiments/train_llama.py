"""A small Llama trained and generating, with torch's norms and with ours side by side: a JSON file and a table.

    python experiments/train_llama.py --output llama.json --device cuda

Models start with the same weights, see the same batches and take their steps in turn, so both meet the same load and
clocks. Two more runs tell how much a loss curve differs by itself: torch's norms computed in float64 and rounded once,
and torch's norms with the batches of another seed.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from small_llama import LlamaSize, SmallLlama, TokenChain
from torch import Tensor, nn
from torch.nn import functional

from fib_rmsnorm.machine.clocks import other_share, read_load
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.machine.environment import library_versions
from fib_rmsnorm.nn import replace, verify

SIZES = {
    "cpu": {"small": LlamaSize(2, 128, 4, 256, 4, 64), "larger": LlamaSize(4, 256, 4, 256, 2, 64)},
    "cuda": {"small": LlamaSize(12, 768, 12, 8192, 8, 1024), "larger": LlamaSize(16, 2048, 16, 8192, 8, 1024)},
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MODES = ("eager", "compiled")
TORCH, OURS, EXACT, REORDERED = "torch", "ours", "exact norms", "other batches"
WARMUP_STEPS, PROMPT = 10, 8


class ExactNorm(nn.Module):
    """torch's RMSNorm in float64, rounded once."""

    def __init__(self, norm: nn.RMSNorm) -> None:
        super().__init__()
        self.weight, self.eps = norm.weight, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """The norm of x, in its dtype."""
        return functional.rms_norm(x.double(), self.weight.shape, self.weight.double(), self.eps).to(x.dtype)


class Trainee:
    """A model, its optimizer with float32 weights, and what its steps showed."""

    def __init__(self, model: SmallLlama, mode: str, seed: int = 0) -> None:
        self.model, self.seed, self.losses, self.step_s = model, seed, [], []
        self.run: Callable[..., Tensor] = torch.compile(model) if mode == "compiled" else model
        self._masters = [each.detach().float().clone().requires_grad_() for each in model.parameters()]
        self._optimizer = torch.optim.AdamW(self._masters, lr=1e-3, betas=(0.9, 0.95))
        self.peak_bytes = 0

    def step(self, tokens: Tensor, *, watch: bool = False) -> None:
        """One step on sequences, [batch, length + 1]; with `watch`, its memory is read, which takes time."""
        begins = _now(tokens.device)
        with _PeakMemory(tokens.device) if watch else nullcontext() as memory:
            logits = self.run(tokens[:, :-1], torch.arange(tokens.shape[1] - 1, device=tokens.device))
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            loss.backward()
        for master, parameter in zip(self._masters, self.model.parameters(), strict=True):
            master.grad, parameter.grad = parameter.grad.float(), None
        self._optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(self._masters, self.model.parameters(), strict=True):
                parameter.copy_(master)
        self.losses.append(loss.item())
        self.step_s.append(_now(tokens.device) - begins)
        if memory is not None:
            self.peak_bytes = memory.peak_bytes


class _PeakMemory:
    """The most that a forward and a backward hold at once beyond what there was: by torch's allocators."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._profiler = torch.profiler.profile(profile_memory=True) if device.type == "cpu" else None

    def __enter__(self) -> _PeakMemory:
        if self._profiler is not None:
            self._profiler.__enter__()
        else:
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
        return self

    def __exit__(self, *reason: object) -> None:
        if self._profiler is None:
            self.peak_bytes = torch.cuda.max_memory_allocated(self._device) - self._before
            return
        self._profiler.__exit__(*reason)
        held = self.peak_bytes = 0
        events = self._profiler.profiler.kineto_results.events()
        for event in sorted((each for each in events if each.name() == "[memory]"), key=lambda each: each.start_ns()):
            held += event.nbytes()
            self.peak_bytes = max(self.peak_bytes, held)


def train(trainees: dict[str, Trainee], chain: TokenChain, size: LlamaSize, device: torch.device, steps: int) -> None:
    """Train all in turn, each second step in the other order."""
    for step in range(steps):
        order = [*trainees.values()]
        for trainee in order if step % 2 else reversed(order):
            seed = 1_000_000 * trainee.seed + step
            trainee.step(chain.draw(size, seed).to(device), watch=step == WARMUP_STEPS)


@torch.inference_mode()
def generate(trainee: Trainee, prompt: Tensor, count: int) -> tuple[Tensor, float]:
    """The prompts with `count` more tokens, the likeliest each, and the seconds that these took."""
    cache = trainee.model.make_cache(prompt.shape[0], prompt.shape[1] + count)
    positions = torch.arange(prompt.shape[1] + count, device=prompt.device)
    out = [prompt]
    token = trainee.model(prompt, positions[: prompt.shape[1]], cache)[:, -1:].argmax(-1)
    begins = _now(prompt.device)
    for place in range(prompt.shape[1], prompt.shape[1] + count):
        out.append(token)
        token = trainee.run(token, positions[place : place + 1], cache)[:, -1:].argmax(-1)
    return torch.cat(out, 1), _now(prompt.device) - begins


def compare(name: str, size: LlamaSize, dtype: str, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table."""
    device, chain = torch.device(options.device), TokenChain(size.vocabulary)
    torch._dynamo.reset()
    torch.manual_seed(0)
    start = SmallLlama(size).to(device, DTYPES[dtype])
    models = {each: copy.deepcopy(start) for each in (TORCH, OURS, EXACT, REORDERED)}
    report = replace(models[OURS])
    for block in (models[EXACT], *models[EXACT].blocks):
        for key, norm in [*block.named_children()]:
            if isinstance(norm, nn.RMSNorm):
                setattr(block, key, ExactNorm(norm))
    # The Inductor of torch 2.11 fails at norms in float64 on a GPU, which are there for the losses alone.
    modes = {EXACT: "eager"}
    trainees = {
        each: Trainee(model, modes.get(each, mode), seed=int(each == REORDERED)) for each, model in models.items()
    }
    load = read_load()
    train(trainees, chain, size, device, options.steps)
    prompt = chain.draw(size, 999)[:, :PROMPT].to(device)
    rounds = [{each: generate(trainees[each], prompt, options.tokens) for each in (TORCH, OURS)} for _ in range(1 + 3)][
        1:
    ]
    load_share = other_share(load, read_load())
    logits = verify(models[OURS], (chain.draw(size, 998)[:, :-1].to(device), torch.arange(size.length, device=device)))
    texts = {each: rounds[-1][each][0] for each in (TORCH, OURS)}
    timed = slice(WARMUP_STEPS + 1, None)
    return {
        "size": name, **size._asdict(), "dtype": dtype, "mode": mode, "steps": options.steps,
        "parameters": sum(each.numel() for each in start.parameters()), "norms": len(report.replaced),
        "least_loss": chain.least_loss,
        "losses": {each: trainee.losses for each, trainee in trainees.items()},
        "largest_loss_difference": {
            each: max(abs(a - b) for a, b in zip(trainees[each].losses, trainees[TORCH].losses, strict=True))
            for each in (OURS, EXACT, REORDERED)
        },
        "train_tokens_per_s": {
            each: size.batch * size.length / median(trainees[each].step_s[timed]) for each in (TORCH, OURS)
        },
        "step_peak_bytes": {each: trainees[each].peak_bytes for each in (TORCH, OURS)},
        "generate_tokens_per_s": {
            each: size.batch * options.tokens / median(found[each][1] for found in rounds) for each in (TORCH, OURS)
        },
        "same_tokens": float((texts[TORCH] == texts[OURS])[:, PROMPT:].float().mean()),
        "known_steps": {each: chain.share_of_known_steps(texts[each][:, PROMPT - 1 :].cpu()) for each in texts},
        "times_noise_of_logits": logits.times_noise,
        "other_load_share": load_share,
    }  # fmt: skip


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


HEADER = (
    "model", "dtype, mode", "loss, torch / ours", "largest difference: ours", "exact norms", "other batches",
    "training, tokens/s: torch / ours", "generating, tokens/s: torch / ours", "memory of a step, MB: torch / ours",
)  # fmt: skip


def render(runs: list[dict[str, Any]]) -> Iterator[str]:
    """The table, in Markdown."""
    yield "| " + " | ".join(HEADER) + " |"
    yield "|" + "---|" * 2 + "---:|" * (len(HEADER) - 2)
    for run in runs:
        last = {each: sum(run["losses"][each][-10:]) / 10 for each in (TORCH, OURS)}
        differences = run["largest_loss_difference"]
        cells = (
            f"{run['layers']} x {run['hidden']}, {run['parameters'] / 1e6:.3g} M",
            f"{run['dtype']}, {run['mode']}",
            f"{last[TORCH]:.4f} / {last[OURS]:.4f}",
            *(f"{differences[each]:.1g}" for each in (OURS, EXACT, REORDERED)),
            *(
                f"{run[key][TORCH]:,.0f} / {run[key][OURS]:,.0f}"
                for key in ("train_tokens_per_s", "generate_tokens_per_s")
            ),
            " / ".join(f"{run['step_peak_bytes'][each] / 1e6:.1f}" for each in (TORCH, OURS)),
        )
        yield "| " + " | ".join(cells) + " |"


def main() -> int:
    """Compare, print each row as it is there, and write the file anew after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--sizes", nargs="+", choices=SIZES["cpu"], default=[*SIZES["cpu"]])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=[*DTYPES])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[*MODES])
    parser.add_argument("--steps", type=int, default=200, help=f"at least {WARMUP_STEPS + 5}")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate in each sequence")
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    if options.steps < WARMUP_STEPS + 5:
        parser.error(f"--steps: at least {WARMUP_STEPS + 5}, of which {WARMUP_STEPS} are not timed")
    kind = options.device.partition(":")[0]
    if kind not in SIZES or (kind == "cuda" and not torch.cuda.is_available()):
        parser.error(f"--device: {options.device} is not here; use cpu")
    hardware = choose_devices(options.device)[0].hardware
    found: dict[str, Any] = {"hardware": hardware, "libraries": library_versions(), "runs": []}
    for size in options.sizes:
        for dtype in options.dtypes:
            for mode in options.modes:
                found["runs"].append(compare(size, SIZES[kind][size], dtype, mode, options))
                print([*render(found["runs"])][-1], file=sys.stderr, flush=True)
                if options.output:
                    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    busy = max((run["other_load_share"] or 0.0) for run in found["runs"])
    print(f"{hardware}; other processes took up to {busy:.0%} of it\n")
    print("\n".join(render(found["runs"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
