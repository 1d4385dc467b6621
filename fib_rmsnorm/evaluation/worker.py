"""The worker: a process that builds one solution, calls it and times it, and knows no right answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.building import BuildError, build_entry, is_compile_error
from fib_rmsnorm.evaluation.channel import Channel, Message, RefusalError, serve
from fib_rmsnorm.evaluation.handover import write_outputs
from fib_rmsnorm.evaluation.inputs import make_case, make_outputs
from fib_rmsnorm.evaluation.results import WrongOutputError, normalize_outputs
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.schema import Definition, Settings, Solution, Workload


class Worker:
    """Holds one built solution on one device."""

    def __init__(self, handover: int) -> None:
        self._handover = handover

    def build(self, message: Message) -> Message:
        """Build the solution for the device; the answer says how long it took."""
        self._definition = Definition.model_validate(message["definition"])
        self._solution = Solution.model_validate(message["solution"])
        self._dataset = Path(message["dataset"]) if message.get("dataset") else None
        self._device: str = message["device"]
        if self._device != "cpu":
            torch.cuda.set_device(self._device)
        started = time.perf_counter()
        try:
            self._entry = build_entry(self._solution, self._device, Path(message["cache"]))
        except BuildError as error:
            raise RefusalError("COMPILE_ERROR", str(error)) from None
        return {"build_s": time.perf_counter() - started}

    def call(self, message: Message) -> Message:
        """Call the solution once on the inputs of a case and hand its outputs over."""
        workload = Workload.model_validate(message["workload"])
        _, inputs, _ = make_case(self._definition, workload, message["case"], self._device, self._dataset)
        kept = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        outputs = make_outputs(self._definition, workload, self._device)
        found = self._call(list(inputs.values()), outputs)
        self._check_form(found, outputs)
        write_outputs(self._handover, found)
        changed = [name for name, before in kept.items() if not _same_bits(inputs[name], before)]
        return {"changed_inputs": changed}

    def time(self, message: Message) -> Message:
        """Time calls on the workload's own inputs: one latency in milliseconds for each timed call."""
        workload = Workload.model_validate(message["workload"])
        settings = Settings.model_validate(message["settings"])
        _, inputs, _ = make_case(self._definition, workload, 0, self._device, self._dataset)
        arguments = list(inputs.values())
        if self._solution.spec.destination_passing_style:
            arguments += make_outputs(self._definition, workload, self._device)
        entry = self._entry

        def call() -> object:
            return entry(*arguments)

        timer = choose_timer(self._device)
        samples = timer.measure(call, settings)
        return {"samples_ms": samples, "timer": timer.name, "cold_l2": timer.cold_l2}

    def _call(self, arguments: list[Any], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            if self._solution.spec.destination_passing_style:
                self._entry(*arguments, *outputs)
                found = outputs
            else:
                found = normalize_outputs(self._entry(*arguments), list(self._definition.outputs))
            self._synchronize()
        except WrongOutputError as error:
            raise RefusalError("RUNTIME_ERROR", str(error)) from None
        except Exception as error:
            if is_compile_error(error):
                raise RefusalError("COMPILE_ERROR", f"{type(error).__name__}: {error}") from None
            raise
        return found

    def _check_form(self, found: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        for name, actual, expected in zip(self._definition.outputs, found, outputs, strict=True):
            if actual.shape != expected.shape:
                raise RefusalError(
                    "INCORRECT_SHAPE", f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}"
                )
            if actual.dtype != expected.dtype:
                raise RefusalError("INCORRECT_DTYPE", f"{name}: dtype {actual.dtype}, expected {expected.dtype}")

    def _synchronize(self) -> None:
        if self._device != "cpu":
            torch.cuda.synchronize(self._device)


def _same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))


def main(channel: Channel, handover: int) -> None:
    """Serve until the channel closes."""
    worker = Worker(handover)
    serve(channel, {"build": worker.build, "call": worker.call, "time": worker.time})
