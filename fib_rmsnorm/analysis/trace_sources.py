"""Find the files of Traces that are asked for, and read the Traces in them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from fib_rmsnorm.analysis.decoding import NotATraceError, decode
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.notices import summarize_faults
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files, read_records
from fib_rmsnorm.registry.layout import PUBLISHED, find_root, is_registry

_SUFFIXES = (".json", ".jsonl")


TraceFile = tuple[Path, Path | None]
"""A file to read, and the root of a dataset, out of which it must not lead."""


def read_files(sources: list[Path], root: Path | None, told: list[str]) -> tuple[list[Path], list[TraceRecord]]:
    """The registries that the files and folders lie in, by default the one at hand, and the Traces in them.

    `told` gets a line for each file that cannot be read whole.
    """
    here, asked = Path.cwd(), sources
    if not asked:
        found = find_root(root)
        asked = [found.relative_to(here) if found.is_relative_to(here) else found]  # the shorter to read
    roots = _find_roots([file for source in asked for file in _list_files(source)], sources, root)
    traces: list[TraceRecord] = []
    with locked(reading=roots):
        for path, dataset in (file for source in asked for file in _list_files(source)):
            faults: list[str] = []
            traces += _decode_file(path, dataset, faults)
            if faults:
                told.append(summarize_faults(faults))
    return roots, traces


def _list_files(source: Path) -> list[TraceFile]:
    """The files to read: `source`, or those in the folder; a dataset's are under `traces/`."""
    if source.is_file():
        return [(source, None)]
    if not source.is_dir():
        if source.exists():
            raise InputError(f"{source}: is not a regular file; write what it holds to a file first")
        raise InputError(f"no such file or folder: {source}")
    is_dataset = (source / "traces").is_dir()
    if not is_dataset and (source / "definitions").is_dir():
        return []  # a dataset without Traces; its other files hold none
    found = find_files(source / "traces" if is_dataset else source, "*.json*")
    root = source if is_dataset else None
    # What is a folder here is a link to one: reading it reports the link.
    return [(path, root) for path in found if (is_dataset if path.is_dir() else path.suffix in _SUFFIXES)]


def _find_roots(files: Iterable[TraceFile], sources: list[Path], root: Path | None) -> list[Path]:
    """The datasets around the files and folders, else the registry found from here, if any."""
    starts = {path.resolve().parent for path, _ in files} | {each.resolve() for each in sources if each.is_dir()}
    roots = dict.fromkeys(filter(None, map(_dataset_around, sorted(starts))))
    if not roots or root is not None:
        try:
            roots.setdefault(find_root(root))
        except InputError:
            if root is not None:
                raise
    return list(roots)


def _dataset_around(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if is_registry(each)), None)


def _decode_file(path: Path, root: Path | None, faults: list[str]) -> Iterator[TraceRecord]:
    """The Traces of a file; `faults` gets what could not be read in it."""
    origin = _find_origin(path)
    try:
        for number, item in read_records(path, root):
            try:
                trace = decode(item, number, origin)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if trace is not None:
                yield trace
    except InputError as error:
        faults.append(str(error))


def _find_origin(path: Path) -> dict[str, str | None]:
    """The file of Traces, as records have it, and the author of its Solutions.

    `traces/<author>/<op_type>/<definition>.jsonl` names the author of its Solutions, unless they are of several.
    """
    whole, parts = path.resolve(), path.parts
    root = _dataset_around(whole.parent)
    author = parts[-3] if len(parts) > 3 and parts[-4] == "traces" and parts[-3] != PUBLISHED else None
    return {"path": str(path), "file": str(whole.relative_to(root)) if root else path.name, "author": author}


def read_items(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, bytes]]:
    """The JSON that each of the records was read from, in one pass over each file."""
    by_path = defaultdict[str, dict[int, TraceRecord]](dict)
    for record in records:
        by_path[record.path][record.line] = record
    for path, asked in sorted(by_path.items()):
        yield from ((asked[number], bytes(item)) for number, item in read_records(Path(path)) if number in asked)
