"""The kernels of an assembly text for AMD's CDNA: their resources, instructions by kind, accesses to global memory."""

import re
from itertools import pairwise

from fib_rmsnorm.inspection.facts import Code, Direction, Kernel
from fib_rmsnorm.inspection.instructions import OTHER, Instruction, summarize

# The first pattern that fits how an instruction begins decides. CDNA 2 spills to a buffer.
_KINDS = (
    (None, "s_nop|s_endpgm|s_code_end"),
    ("asynchronous copies", r"(global|buffer)_load_.*\blds\b|global_load_lds_"),
    ("spill loads", r"scratch_load_|buffer_load_.*Folded Reload"),
    ("spill stores", r"scratch_store_|buffer_store_.*Folded Spill"),
    ("atomics", r"\w+_atomic_|ds_(add|sub|inc|dec|min|max|and|or|xor|cmpst|wrxchg)_"),
    ("global loads", "(global|buffer|flat)_load_"),
    ("global stores", "(global|buffer|flat)_store_"),
    ("shuffles", r"\w+_dpp\b|ds_(b?permute|swizzle)|v_(readlane|writelane|permlane)"),
    ("shared loads", "ds_read"),
    ("shared stores", "ds_write"),
    ("fused multiply-adds", "v_(pk_)?(fma|fmac|mac|mad)(_f|_mix|_legacy|mk_f|ak_f)|v_mfma_|v_dot2"),
    ("conversions", "v_cvt_|v_(rndne|floor|ceil|trunc|fract)_f"),
    ("special functions", "v_(rcp|rsq|sqrt|exp|log|sin|cos)_"),
    (
        "other floating point",
        r"v_(pk_)?(add|sub|subrev|mul|(min|max)(imum)?3?|med3|ldexp)_(legacy_)?f|v_div_|v_cmpx?_\w+_f",
    ),
    ("barriers", "s_barrier"),
    ("branches", "s_(c?branch|setpc|swappc|call)"),
    (OTHER, ""),
)
_KIND_OF = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_BYTES = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dword": 4}
_WIDTH = re.compile(rf"\w+?_(?:load|store)_(?:lds_)?({'|'.join(_BYTES)})(?:x(\d))?")
_INSTRUCTION = re.compile(r"^\t([a-z]\w+.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^(?:\.LBB\w+:|; %bb\.)", re.MULTILINE)
_RESOURCES = {
    "registers": "vgpr_count",
    "scalar_registers": "sgpr_count",
    "spill_bytes": "private_segment_fixed_size",
    "shared_bytes": "group_segment_fixed_size",
}


def read_kernels(text: str, arch: str) -> list[Kernel]:
    """Read the kernels of an assembly text. Shared memory is the static part, registers include accumulators."""
    # A kernel's metadata: its arguments are indented more deeply than what is read here.
    described = re.split(r"^  - (?=\.)", text.partition("\namdhsa.kernels:\n")[2], flags=re.MULTILINE)[1:]
    kernels = []
    for each in described:
        facts = dict(re.findall(r"^(?:    )?\.(\w+): +(\S+)$", each, re.MULTILINE))
        name = facts["name"]
        code = re.search(rf"^{re.escape(name)}:.*?^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
        resources = {fact: int(facts[said]) for fact, said in _RESOURCES.items()}
        kernel = Kernel(kernel=name, arch=arch, code=_read(code[0]) if code else None)
        kernels.append(kernel.model_copy(update=resources))
    return kernels


def _read(text: str) -> Code:
    """Read a kernel's code. The address of an instruction is its place in the text."""
    code = []
    for match in _INSTRUCTION.finditer(text):
        kind = next(kind for kind, pattern in _KIND_OF if pattern.match(match[1]))
        code.append(Instruction(match.start(), kind, _access(kind, match[1])))
    return summarize(code, _find_loops(text))


def _find_loops(text: str) -> list[tuple[int, int]]:
    """The first and the last address of each loop, by the compiler's comments at the head of each block."""
    starts = [*(match.start() for match in _BLOCK.finditer(text)), len(text)]
    spans: dict[str, tuple[int, int]] = {}
    for start, end in pairwise(starts):
        block = text[start:end]
        names = re.findall(r"(?:Header=|Parent Loop )(BB\w+)", block)
        if re.search(r"=> *This (Inner )?Loop Header", block):
            names.append(block[len(".L") :].partition(":")[0])
        for name in names:
            spans[name] = (min(start, spans.get(name, (start,))[0]), end - 1)
    return list(spans.values())


def _access(kind: str | None, line: str) -> tuple[Direction, int] | None:
    match = _WIDTH.match(line)
    if match is None or kind not in ("global loads", "asynchronous copies", "global stores"):
        return None
    return "store" if kind == "global stores" else "load", _BYTES[match[1]] * int(match[2] or 1)
