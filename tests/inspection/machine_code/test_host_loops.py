"""Which loops are found in machine code of the host, and what they call: in listings as compilers lay them out."""

from __future__ import annotations

import networkx
import pytest

from fib_rmsnorm.inspection.machine_code.host_blocks import HostInstruction, find_inner_loops
from fib_rmsnorm.inspection.machine_code.host_code import read_loops


def loops_of(listing: str):
    """The loops of a function, written with labels before its lines and `@` before what jumps and calls name."""
    labels, lines = {}, []
    for text in filter(None, map(str.strip, listing.splitlines())):
        label, _, code = text.rpartition(": ")
        labels |= {label: len(lines)} if label else {}
        lines.append(code.strip())
    found = []
    for address, code in enumerate(lines):
        opcode, _, operands = code.partition(" ")
        before, at, name = operands.partition("@")
        if at:
            operands = before + (f"{labels[name]:x} <f+{labels[name]:#x}>" if name in labels else f"fff0 <{name}@plt>")
        found.append(HostInstruction(address, opcode, operands))
    return read_loops(found)


def test_a_call_in_a_rare_case_behind_the_loop_is_not_of_each_pass():
    (loop,) = loops_of("""
              vxorps %xmm2,%xmm2,%xmm2
        next: vmovss (%rdi),%xmm0
              vucomiss %xmm0,%xmm2
              ja @cold
              vsqrtss %xmm0,%xmm0,%xmm1
        back: vmulss %xmm1,%xmm3,%xmm1
              vmovss %xmm1,(%rsi)
              cmp %rdi,%rax
              jne @next
              jmp @end
        cold: call @sqrtf
              jmp @back
        end:  ret
    """)
    assert (loop.instructions, loop.scalar, loop.divisions, loop.calls) == (10, 2, 1, ())


def test_a_rare_case_of_straight_code_makes_no_loop():
    assert (
        loops_of("""
              vucomiss %xmm0,%xmm2
              ja @cold
              vsqrtss %xmm0,%xmm0,%xmm1
        back: vmulss %xmm1,%xmm3,%xmm1
              jmp @end
        cold: call @sqrtf
              jmp @back
        end:  ret
    """)
        == ()
    )


def test_the_inner_one_of_two_loops_and_not_what_the_outer_one_calls():
    (loop,) = loops_of("""
        row:  call @memcpy
        next: vmulps (%rdi),%ymm0,%ymm1
              vaddps %ymm1,%ymm2,%ymm2
              cmp %rdi,%rax
              jne @next
              vucomiss %xmm0,%xmm2
              ja @cold
        back: vdivss %xmm0,%xmm1,%xmm0
              dec %rcx
              jne @row
              jmp @end
        cold: call @sqrtf
              jmp @back
        end:  ret
    """)
    assert (loop.instructions, loop.vector, loop.scalar, loop.divisions, loop.calls) == (4, 2, 0, 0, ())


def test_a_loop_behind_the_end_of_the_function():
    (loop,) = loops_of("""
              test %rdi,%rdi
              jne @rest
        end:  ret
        rest: nop
        next: vaddss (%rdi),%xmm0,%xmm0
              call @tanhf
              cmp %rdi,%rax
              je @end
              jmp @next
    """)
    assert (loop.scalar, loop.calls) == (1, ("tanhf",))


ARMS = """
    next: vaddss (%rdi),%xmm0,%xmm0
          je @other
          call @{}
          jmp @both
    other: {}
    both: call @{}
          cmp %rdi,%rax
          jne @next
          ret
"""


@pytest.mark.parametrize(
    ("one", "other", "always", "called"),
    [
        ("expf", "nop", "tanhf", ("tanhf",)),
        ("expf", "call @expf", "tanhf", ("expf", "tanhf")),
        ("expf", "call @logf", "tanhf", ("tanhf",)),
        ("tanhf", "nop", "tanhf", ("tanhf",)),
    ],
)
def test_a_call_is_of_each_pass_if_no_way_avoids_it(one, other, always, called):
    (loop,) = loops_of(ARMS.format(one, other, always))
    assert loop.calls == called


def test_a_pass_that_goes_on_early_makes_what_follows_no_part_of_each():
    (loop,) = loops_of("""
        next: vaddss (%rdi),%xmm0,%xmm0
              je @next
              call @tanhf
              jmp @next
    """)
    assert (loop.instructions, loop.calls) == (4, ())


@pytest.mark.parametrize("jump", ["jmp *%rax", "notrack jmp *%rax"])
def test_the_cases_of_a_switch_are_in_its_loop(jump):
    (loop,) = loops_of(f"""
        next: cmp $3,%rdx
              ja @both
              {jump}
              nop
              vmulss (%rdi),%xmm0,%xmm0
              jmp @both
              vaddss (%rdi),%xmm0,%xmm0
              call @expf
        both: call @tanhf
              cmp %rdi,%rax
              jne @next
              ret
    """)
    assert (loop.scalar, loop.calls) == (2, ("tanhf",))


@pytest.mark.parametrize("name", ["__stack_chk_fail", "std::__throw_length_error(char const*)", "abort"])
def test_code_behind_a_call_that_never_returns_is_not_entered_from_it(name):
    (loop,) = loops_of(f"""
              je @bad
        next: vmulss (%rdi),%xmm0,%xmm0
              ja @cold
        back: cmp %rdi,%rax
              jne @next
              ret
        bad:  call @{name}
        cold: call @sqrtf
              jmp @back
    """)
    assert (loop.instructions, loop.calls) == (6, ())


def test_branches_and_calls_of_arm():
    (loop,) = loops_of("""
              cbz x0, @end
        next: fmla v0.4s, v1.4s, v2.4s
              b.mi @cold
        back: bl @tanhf
              subs x0, x0, #0x4
              b.ne @next
        end:  ret
        cold: bl @sqrtf
              b @back
    """)
    assert (loop.vector_bytes, loop.fused, loop.calls) == (16, 1, ("tanhf",))


def test_a_cycle_with_two_ways_in_is_no_loop():
    assert list(find_inner_loops(networkx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 1)]))) == []


def test_functions_of_thousands_of_blocks():
    size = 20_000
    cycle = networkx.DiGraph((number, (number + 1) % size) for number in range(size))
    assert [len(loop.body) for loop in find_inner_loops(cycle)] == [size]
    nested = networkx.DiGraph(edge for number in range(200) for edge in ((number, number + 1), (number + 1, number)))
    assert [sorted(loop.body) for loop in find_inner_loops(nested)] == [[199, 200]]
