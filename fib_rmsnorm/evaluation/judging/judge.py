"""The judge's process, the only one that knows the right answers: it compares the outputs of workers with them.

It runs no code of other people: the outputs of a Definition's reference come from a worker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain

import torch

from fib_rmsnorm.evaluation.judging import judge_messages as messages
from fib_rmsnorm.evaluation.judging.expected_outputs import (
    ExpectedOutputs,
    Outputs,
    Rounding,
    expect_reference,
    make_expected,
    measure_rounding,
)
from fib_rmsnorm.evaluation.judging.mistake_finding import explain_outputs
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare, find_indices, measure_ulp
from fib_rmsnorm.evaluation.tensors.case_numbers import make_few_rows
from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.inputs import Case, DeviceWorkload, make_case, shape_of, torch_dtype
from fib_rmsnorm.evaluation.tensors.output_buffers import POISON, as_bytes
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import Done, name_handlers, open_device
from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve
from fib_rmsnorm.sandbox.output_transfer import DeviceMemoryError, OutputTransferError, read_outputs, take, view_outputs
from fib_rmsnorm.schema import Difference, Peer, Recurrence, Workload

_MOST_ROWS = 512
_MOST_WORKERS = 64
"""A kernel that fails before its rows recur leaves them: beyond this, those of the first worker go."""


class Judge:
    """Computes the expected outputs of each case once, and keeps those of the current Workload."""

    def __init__(self, files: Sequence[int]) -> None:
        """`files` are the descriptors of the files that came with the current request."""
        self._files = files
        self._taken: dict[bool, list[torch.Tensor]] = {}
        """Bytes of outputs that were copied from a GPU's memory, until they are compared: those to compare, and with
        True the reference's. Others are read from files."""
        self._begin(None)

    def _begin(self, workload: tuple[str, str, Recognition | None] | None) -> None:
        self._current = workload
        self._cases: dict[tuple[int, bool], ExpectedOutputs] = {}
        """By the number of the case, and whether it has few rows."""
        self._rounding: dict[str, Rounding] = {}
        """How much the reference rounds its outputs, by name, if it alone judges."""
        self._peer: Peer | None = None
        self._peer_outputs: dict[tuple[int | None, bool, bool], Outputs] = {}
        """By case too, and whether rows were strided: outputs of one Solution, with which those of others on the same
        inputs are compared."""
        self._kept_rows: dict[int | None, list[bytes]] = {}
        self._fresh_inputs: dict[bool, FreshInputs] = {}
        """By whether they have few rows."""

    def take_outputs(self, request: messages.TakeOutputs) -> Done:
        """Copy outputs that a worker offers in a GPU's memory.

        It may offer anything, so a refusal is fatal: what a false handle has left in this process harms nobody else.
        """
        try:
            self._taken[request.are_expected] = take(request.memory, request.device)
        except (DeviceMemoryError, RuntimeError) as error:  # torch's, if there is not enough memory
            raise RefusalError("RUNTIME_ERROR", str(error), fatal=True) from None
        return Done()

    def expect(self, request: messages.Expect) -> messages.Verdicts:
        """Compute the expected outputs of a case, while solutions are being built. There is no verdict."""
        next(self._expect(request))
        self._taken.clear()  # or another call could pass with it; if this fails, the process ends
        return messages.Verdicts([])

    def compare(self, request: messages.Compare) -> messages.Verdicts:
        """Compare the outputs that were transferred with the expected ones."""
        expected = self._expect(request)
        first = next(expected)
        if request.strided:
            name = f"{first.case.name}, strided rows{' and columns' if max(request.strided.values()) > 1 else ''}"
            strided = replace(first.case, name=name, kind="strided", recurring=0)
            first = replace(first, case=strided)
        try:
            received = self._read(request, first.case.workload, request.outputs_file)
        except OutputTransferError as error:
            verdicts = [
                messages.Verdict(first.case.name, first.case.kind, str(error), outputs={}, hint=None, mistakes={})
            ]
        else:
            calls = zip(chain([first], expected), received, strict=True)
            verdicts = [self._compare_call(request, right, actuals) for right, actuals in calls]
        self._taken.clear()
        return messages.Verdicts(verdicts)

    def measure_rounding(self, request: messages.MeasureRounding) -> messages.Verdicts:
        """Compare the reference's outputs with those in float64, to allow for its rounding. Gives no verdict."""
        outputs = next(self._expect(request)).outputs
        (wide,) = self._read(request, request.workload, request.outputs_file)
        for name, own in outputs.items():
            if rounding := measure_rounding(own.exact.values, wide[name]):
                self._rounding[name] = rounding
                outputs[name] = expect_reference(request, own.exact.values, rounding)
        self._taken.clear()
        return messages.Verdicts([])

    def _compare_call(self, request: messages.Compare, expected: ExpectedOutputs, own: Outputs) -> messages.Verdict:
        key = request.case, request.few_rows, bool(request.strided)
        peers = {} if request.keep_as else self._peer_outputs.get(key, {})
        recurrence = self.compare_recurring(request, expected.case, own)
        case, recognition, actuals = expected.case, request.recognition, own
        if recognition:
            actuals = {name: recognition.fold(name, each) for name, each in own.items()}
        if request.keep_as:
            self._peer, self._peer_outputs[key] = request.keep_as, actuals
        outputs = {
            name: _judge_output(request, expected, name, actual, own[name].shape, peers.get(name))
            for name, actual in actuals.items()
        }
        hint = None
        if request.suspects is None and any(output.mismatched for output in outputs.values()):
            hint = describe_unwritten(own, {name: each.exact.values for name, each in expected.outputs.items()})
        mistakes = request.suspects or {}
        if case.explains:
            mistakes = explain_outputs(request, expected, actuals, outputs)
        peer = self._peer if peers else None
        return messages.Verdict(
            case.name, case.kind, None, outputs, hint, mistakes, expected.contradicted, peer, recurrence
        )

    def compare_recurring(self, request: messages.Compare, case: Case, outputs: Outputs) -> Recurrence | None:
        """How many rows of a call's outputs differ from those of the first case, whose last rows are its last.

        None if no row recurs. Until they recur, digests of the last rows of a worker's first case are kept.
        """
        axis = (request.recognition.row_axis if request.recognition else None) or ""
        shapes = {name: spec.shape or () for name, spec in request.definition.outputs.items()}
        by_row = [each.movedim(shapes[name].index(axis), 0) for name, each in outputs.items() if axis in shapes[name]]
        if request.case == 0:
            self._kept_rows.pop(request.worker, None)
            self._kept_rows[request.worker] = _digest_last_rows(by_row)
            for worker in [*self._kept_rows][:-_MOST_WORKERS]:
                del self._kept_rows[worker]
        if not case.recurring or not (kept := self._kept_rows.pop(request.worker, [])):
            return None
        now, count = _digest_last_rows(by_row), min(case.recurring, len(kept))
        from_end = [place for place in range(count, 0, -1) if now[-place] != kept[-place]]
        if not from_end:
            return Recurrence(rows=count)
        here, before = len(by_row[0]) - from_end[0], request.workload.axes[axis] - from_end[0]
        return Recurrence(rows=count, different=len(from_end), row=here, before=before)

    def _expect(self, request: messages.Expect) -> Iterator[ExpectedOutputs]:
        """The expected outputs of each call, one after the other: timed calls have their inputs in the same place."""
        definition, workload = request.definition, request.workload
        current = (definition.name, workload.uuid, request.recognition)
        if self._current != current:
            self._begin(current)
        if request.case is None:
            few = request.few_rows
            called = make_few_rows(definition, request.recognition, workload) if few else workload
            if request.recognition and few not in self._fresh_inputs:
                timed = DeviceWorkload(definition, called, request.device, request.dataset)
                self._fresh_inputs[few] = FreshInputs(timed)
            for number, reference in zip(request.numbers, self._read_reference(request, workload), strict=True):
                inputs = self._fresh_inputs[few].set(number) if request.recognition else {}
                yield make_expected(request, Case("timed call", "timed", called, inputs), reference, self._rounding)
            return
        key = (request.case, request.few_rows)
        if key not in self._cases:
            judged = DeviceWorkload(definition, workload, request.device, request.dataset)
            case = make_case(judged, request.recognition, request.case, few_rows=request.few_rows)
            (reference,) = self._read_reference(request, case.workload)
            self._cases[key] = make_expected(request, case, reference, self._rounding)
        yield self._cases[key]

    def _read_reference(self, request: messages.Expect, workload: Workload) -> Sequence[Outputs | None]:
        """The outputs of the Definition's reference for each call; None if they were not transferred."""
        if request.expected_file is None and True not in self._taken:
            return [None] * (len(request.numbers) or 1)
        return self._read(request, workload, request.expected_file, are_expected=True)

    def _read(
        self, request: messages.Expect, workload: Workload, file: int | None, *, are_expected: bool = False
    ) -> list[Outputs]:
        """The outputs of each call, all at once: who transferred them could change them meanwhile.

        Raises OutputTransferError if they are missing.
        """
        like = [
            torch.empty(
                shape_of(request.definition, workload, name) or [], dtype=torch_dtype(spec.dtype.value), device="meta"
            )
            for name, spec in request.definition.outputs.items()
        ]
        every = like * (len(request.numbers) or 1)
        found = (
            view_outputs(self._taken.pop(are_expected, []), every)
            if file is None
            else read_outputs(self._files[file], every)
        )
        here = [output.to(request.device) for output in found]
        names = request.definition.outputs
        return [dict(zip(names, here[start:], strict=False)) for start in range(0, len(here), len(names))]


def _digest_last_rows(outputs: Sequence[torch.Tensor]) -> list[bytes]:
    last = [each[-_MOST_ROWS:] for each in outputs]
    rows = [as_bytes(each).view(len(each), each.nbytes // max(1, len(each))).cpu().numpy() for each in last]
    return [blake2b(b"".join(of_row)).digest() for of_row in zip(*rows, strict=True)]


def _judge_output(
    request: messages.Compare,
    expected: ExpectedOutputs,
    name: str,
    actual: torch.Tensor,
    own_shape: Sequence[int],
    peer: torch.Tensor | None,
) -> messages.Comparison:
    """Judge an output; its own shape has not one axis of rows instead of several."""
    right, recognition, axes = expected.outputs[name], request.recognition, request.definition.outputs[name].shape or ()
    has_rows = recognition is not None and recognition.row_axis in recognition.fold_shape(name, axes)[:1]
    pair = right.pair(actual, own_shape)
    found = right.compare(pair, request.settings, expected.case.row_kinds if has_rows else ())
    # Hundreds of timed calls are right, and their distances are not reported.
    found.ulp = measure_ulp(pair) if request.case is not None or found.is_wrong else None
    found.reference_ulp = right.reference_ulp
    found.against = None if peer is None else _measure_difference(actual, peer)
    return found


def _measure_difference(actual: torch.Tensor, other: torch.Tensor) -> Difference:
    """How far an output is from another of the same shape and dtype."""
    pair = OutputPair(actual, other)
    found = compare(pair, rtol=0.0, atol=0.0)
    return Difference(
        max_absolute=found.max_absolute_error,
        max_relative=found.max_relative_error,
        elements=found.elements,
        equal=found.elements - found.mismatched,
        ulp=measure_ulp(pair),
    )


def describe_unwritten(actuals: Outputs, expected: Outputs) -> str | None:
    """Say how many elements of the outputs still hold poison, and where the first one is; None if none does.

    In 8 bits, that is a NaN that a kernel may have computed.
    """
    count, is_certain, first = 0, True, ""
    for name, actual in actuals.items():
        elements = [as_bytes(each).view(-1, each.element_size()) == POISON for each in (actual, expected[name])]
        unwritten = elements[0].all(dim=1) & ~elements[1].all(dim=1)
        found = int(unwritten.sum().item())
        is_certain &= not (found and actual.is_floating_point() and actual.element_size() == 1)
        if found and not count:
            first = str(find_indices(int(unwritten.int().argmax()), actual.shape))
        count += found
    or_nan = "" if is_certain else ", or are NaN"
    return (
        f"{count} elements were never written, or were computed from the buffer's old contents{or_nan};"
        f" the first is at {first}"
        if count
        else None
    )


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    # As many threads as cores wait for each other, spinning, where another process takes a core: 30 times as long.
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    judge = Judge(channel.files)
    serve(channel, name_handlers(open_device, judge.expect, judge.take_outputs, judge.compare, judge.measure_rounding))
