"""The process that calls a CUDA library's entry point with a fake runtime; see fake_cudart.cpp.

It never imports torch: a torch built for CUDA would load the real runtime, and the first one loaded is used.
"""

import ctypes
import json
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

from fib_rmsnorm.machine.gpu_models import capability_of, find_architecture, occupancy

_CUDA = 2  # DLPack's number of the device type
_ADDRESS = 1 << 20
_COUNTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64)
_NOTER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p))
_DTYPES = {"float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32), "float64": (2, 64)}  # DLPack: code, bits
_DTYPES |= {f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)} | {"uint8": (1, 8), "bool": (6, 8)}
_DTYPES |= {"float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}


def main() -> None:
    """Read a request from stdin, and write the launches of each call to stdout, or why there are none."""
    request = json.load(sys.stdin)
    fake = ctypes.CDLL(request["fake"], mode=ctypes.RTLD_GLOBAL)  # before anything that needs the runtime
    kernels, known = request["kernels"], find_architecture(request["arch"])

    def count_blocks(name: bytes, threads: int, dynamic_shared: int) -> int:
        """How many blocks fit, from the registers and the static shared memory of a kernel."""
        if name.decode() not in kernels:
            return -1
        registers, static_shared, _ = kernels[name.decode()]
        return occupancy(known, threads, registers, static_shared + dynamic_shared).blocks

    launches: list[dict[str, Any]] = []

    def note_launch(name: bytes, sizes: Any, values: Any) -> None:
        """Note a launch, with the bytes of its arguments, whose sizes the kernel's parameters tell."""
        *_, widths = kernels.get(name.decode(), [[]])
        given = [ctypes.string_at(value, width).hex() for value, width in zip(values or (), widths, strict=False)]
        launch = {"grid": sizes[:3], "block": sizes[3:6], "dynamic_shared_bytes": sizes[6], "arguments": given}
        launches.append({"kernel": name.decode(), **launch})

    figures = (*capability_of(known.name), known.model.multiprocessors, known.max_threads, known.max_blocks)
    memory = (known.registers, known.shared_bytes, known.max_shared_bytes, known.model.l2_bytes)
    counter, noter = _COUNTER(count_blocks), _NOTER(note_launch)  # which live as long as the calls
    fake.fake_start((ctypes.c_int * 9)(*figures, *memory), counter, noter)
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm_ffi would import it, and goes without
    import tvm_ffi

    entry = getattr(tvm_ffi.load_module(request["library"]), request["symbol"])
    numbers = {name: number for number, name in enumerate(kernels)}
    for arguments in request["calls"]:
        launches.clear()
        made = [_Tensor(given["shape"], given["dtype"]) if isinstance(given, dict) else given for given in arguments]
        try:
            entry(*(tvm_ffi.from_dlpack(each) if isinstance(each, _Tensor) else each for each in made))
        except Exception as error:
            answer: str | list[dict[str, Any]] = f"{type(error).__name__}: {error}".partition("\n")[0]
        else:
            answer = [{"kernel_number": numbers[each.pop("kernel")], **each} for each in launches]
        sys.stdout.write(json.dumps({"found": answer}) + "\n")


class _DLManagedTensor(ctypes.Structure):
    """DLPack's tensor, with the structures in it laid out flat."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Tensor:
    """A contiguous tensor on a GPU with no memory behind it, for DLPack."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        sizes = ctypes.c_int64 * len(shape)
        code, bits = _DTYPES[dtype]
        self._managed = _DLManagedTensor(_ADDRESS, _CUDA, 0, len(shape), code, bits, 1, sizes(*shape), sizes(*strides))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0

    def __dlpack__(self, **_: object) -> object:
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule: object = new_capsule(ctypes.addressof(self._managed), b"dltensor", None)
        return capsule
