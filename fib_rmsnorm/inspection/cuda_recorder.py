"""The process that calls a CUDA library's entry point with a fake runtime; see fake_cudart.cpp.

It never imports torch: a torch built for CUDA would load the real runtime, and the first one loaded is used.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fib_rmsnorm.machine.gpu_models import find_architecture, occupancy

_CUDA = 2  # DLPack's number of the device type
_ADDRESS = 1 << 20
_COUNTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64)
_DTYPES = {"float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32), "float64": (2, 64)}  # DLPack: code, bits
_DTYPES |= {f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)} | {"uint8": (1, 8), "bool": (6, 8)}


def main() -> None:
    """Read a request from stdin, and write the launches of each call to stdout, or why there are none."""
    request = json.load(sys.stdin)
    fake = ctypes.CDLL(request["fake"], mode=ctypes.RTLD_GLOBAL)  # before anything that needs the runtime
    fake.fake_take_launches.restype = ctypes.c_char_p
    counter = _COUNTER(_block_counter(request["kernels"], request["arch"]))
    known = find_architecture(request["arch"])
    figures = (*known.capability, known.model.multiprocessors, known.max_threads, known.max_blocks)
    memory = (known.registers, known.shared_bytes, known.max_shared_bytes, known.model.l2_bytes)
    fake.fake_start((ctypes.c_int * 9)(*figures, *memory), counter)
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm_ffi would import it, and goes without
    import tvm_ffi

    entry = getattr(tvm_ffi.load_module(request["library"]), request["symbol"])
    for arguments in request["calls"]:
        made = [_Tensor(given["shape"], given["dtype"]) if isinstance(given, dict) else given for given in arguments]
        try:
            entry(*(tvm_ffi.from_dlpack(each) if isinstance(each, _Tensor) else each for each in made))
        except Exception as error:
            fake.fake_take_launches()
            answer: dict[str, Any] = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        else:
            answer = {"launches": [_parse(line) for line in fake.fake_take_launches().decode().splitlines()]}
        sys.stdout.write(json.dumps(answer) + "\n")


def _block_counter(kernels: dict[str, list[int]], arch: str) -> Callable[[bytes, int, int], int]:
    """Answer how many blocks fit, from the registers and the static shared memory of each kernel."""

    def count(name: bytes, threads: int, dynamic_shared: int) -> int:
        if name.decode() not in kernels:
            return -1
        registers, static_shared = kernels[name.decode()]
        return occupancy(find_architecture(arch), threads, registers, static_shared + dynamic_shared).blocks

    return count


def _parse(line: str) -> dict[str, Any]:
    name, *numbers = line.split("\t")
    values = [int(number) for number in numbers]
    return {"kernel": name, "grid": values[:3], "block": values[3:6], "dynamic_shared_bytes": values[6]}


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int), ("device_id", ctypes.c_int))


class _Dtype(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Tensor:
    """A contiguous tensor on a GPU with no memory behind it, for DLPack."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        strides = [1] * len(shape)
        for axis in reversed(range(len(shape) - 1)):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = (ctypes.c_int64 * len(shape))(*strides)
        tensor = _DLTensor(_ADDRESS, _Device(_CUDA, 0), len(shape), _Dtype(*_DTYPES[dtype], 1))
        tensor.shape, tensor.strides = self._shape, self._strides
        self._managed = _DLManagedTensor(tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0

    def __dlpack__(self, **_: object) -> object:
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule: object = new_capsule(ctypes.addressof(self._managed), b"dltensor", None)
        return capsule
