"""Check the tensors that a Workload reads from safetensors files."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.registry.files.tensor_files import find_tensor_file
from fib_rmsnorm.schema import SafetensorsInput

# The names that safetensors gives the dtypes of a Definition.
_DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "bool": "BOOL",
}
_LFS_POINTER = b"version https://git-lfs"


def check_blob(root: Path, given: SafetensorsInput, shape: list[int], dtype: str) -> str | None:
    """Describe the fault of a tensor on disk, from its file's header alone; None if it has none."""
    from safetensors import SafetensorError, safe_open

    path = find_tensor_file(given, root)
    if path is None:
        return f"{given.path!r} leads outside the dataset"
    if not path.is_file():
        return f"no such file: {given.path!r}"
    try:
        if _is_lfs_pointer(path):
            return f"{given.path!r} is a Git LFS pointer; run: git lfs pull"
        with safe_open(path, framework="np") as tensors:
            if given.tensor_key not in tensors.keys():  # noqa: SIM118 - not a dict
                return f"{given.path!r} has no tensor {given.tensor_key!r}"
            found = tensors.get_slice(given.tensor_key)
            holds = f"{found.get_dtype()} {list(found.get_shape())}"
    except (SafetensorError, OSError) as error:
        return f"{given.path!r} is not a safetensors file: {error}"
    wanted = f"{_DTYPES.get(dtype, dtype)} {shape}"
    return None if holds == wanted else f"{given.path!r} holds {holds}, expected {wanted}"


def _is_lfs_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER
