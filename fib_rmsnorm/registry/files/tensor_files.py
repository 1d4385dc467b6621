"""The files of a dataset that hold the tensors of its Workloads: find them, and check what they hold."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import SafetensorsInput, Workload

_LFS_POINTER = b"version https://git-lfs"


def find_tensor_file(given: SafetensorsInput, root: Path) -> Path:
    """Find the file, links followed. Raises InputError if it is missing, or its path leads out of the dataset."""
    try:
        found = (root / given.path).resolve()
        found.relative_to(root.resolve())
    except ValueError:  # also of a NUL
        raise InputError(f"{given.path!r} leads outside the dataset") from None
    if not found.is_file():
        raise InputError(f"no such file: {given.path!r}")
    return found


def tensor_files(workloads: Iterable[Workload], dataset: Path) -> list[Path]:
    """The files of tensors that Workloads name: no others of the dataset, whatever they name."""
    given = [value for workload in workloads for value in workload.inputs.values()]
    found: list[Path] = []
    for value in given:
        with suppress(InputError):  # which the process that reads it tells
            found += [find_tensor_file(value, dataset)] if isinstance(value, SafetensorsInput) else []
    return [path for path in dict.fromkeys(found) if path.suffix == ".safetensors"]


def check_blob(root: Path, given: SafetensorsInput, shape: list[int], dtype: str) -> str | None:
    """Describe the fault of a tensor on disk, from its file's header alone; None if it has none."""
    from safetensors import SafetensorError, safe_open

    try:
        path = find_tensor_file(given, root)
        with path.open("rb") as file:
            if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
                return f"{given.path!r} is a Git LFS pointer; run: git lfs pull"
        with safe_open(path, framework="np") as tensors:
            if given.tensor_key not in tensors.keys():  # noqa: SIM118 - not a dict
                return f"{given.path!r} has no tensor {given.tensor_key!r}"
            found = tensors.get_slice(given.tensor_key)
            holds = f"{found.get_dtype()} {list(found.get_shape())}"
    except InputError as error:
        return str(error)
    except (SafetensorError, OSError) as error:
        return f"{given.path!r} is not a safetensors file: {error}"
    # As safetensors names dtypes: BF16, I64, F8_E4M3.
    short = dtype.removesuffix("fn").replace("float", "f").replace("int", "i").upper()
    wanted = f"{short} {shape}"
    return None if holds == wanted else f"{given.path!r} holds {holds}, expected {wanted}"
