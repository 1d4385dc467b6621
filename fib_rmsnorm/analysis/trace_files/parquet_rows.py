"""Rows of Traces in a Parquet file, by DuckDB: written once, and asked which Traces to decode."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

import duckdb

_TYPES = {
    "definition": "VARCHAR",
    "workload": "VARCHAR",
    "axes": "VARCHAR",
    "solution": "VARCHAR",
    "definition_sha256": "VARCHAR",
    "solution_sha256": "VARCHAR",
    "hardware": "VARCHAR",
    "timer": "VARCHAR",
    "during_mhz": "DOUBLE",
    "cold_l2": "BOOLEAN",
    "settings": "VARCHAR",
    "failed": "BOOLEAN",
    "timestamp": "VARCHAR",
    "chunk": "UINTEGER",
    "line": "UINTEGER",
    "place": "UBIGINT",
    "length": "UINTEGER",
}
"""The columns: the fields of `decoding.TraceFacts`."""
_MOST_MEMORY = "1GB"
_LONGEST_ROW = 64 << 20

RowsError = duckdb.Error

# Its bindings report objects that were not collected at exit, and commands freeze what they need not collect.
atexit.register(gc.unfreeze)


def _connect(folder: Path | None) -> duckdb.DuckDBPyConnection:
    """A database in memory that fetches no extensions; `folder` is where it may put what does not fit in memory."""
    database = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": _MOST_MEMORY,
            "temp_directory": str(folder) if folder else "",
            "threads": str(len(os.sched_getaffinity(0))),
        }
    )
    database.execute("SET enable_progress_bar = false")
    return database


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all files: to make one takes longer than to ask it."""
    return _connect(None)


def open_rows(file: BinaryIO) -> duckdb.DuckDBPyConnection:
    """A connection with the rows as `traces`."""
    connection = _database().cursor()
    connection.execute(f"CREATE TEMP VIEW traces AS SELECT * FROM read_parquet('{_name_open(file)}')")
    return connection


def _name_open(file: BinaryIO) -> str:
    """A path by which DuckDB opens what is open already, whatever its name has become."""
    return f"/proc/self/fd/{file.fileno()}"


def write_rows(target: Path, kept: tuple[BinaryIO, int] | None, files: Sequence[Path]) -> None:
    """Write rows in the order of their places: those of other rows' chunks below a number, and those of JSON files.

    Raises RowsError.
    """
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in _TYPES.items())
    values: dict[str, object] = {}
    parts: list[str] = []
    if kept:
        parts.append("SELECT * FROM read_parquet($kept) WHERE chunk < $below")
        values |= {"kept": _name_open(kept[0]), "below": kept[1]}
    if files:
        form = f"format = 'newline_delimited', columns = {{{columns}}}, maximum_object_size = {_LONGEST_ROW}"
        parts.append(f"SELECT * FROM read_json($files, {form})")
        values["files"] = [str(file) for file in files]
    to = str(target).replace("'", "''")  # no parameter in DuckDB 1.1
    with _connect(target.parent) as database:
        query = f"COPY ({' UNION ALL '.join(parts)} ORDER BY place) TO '{to}' (FORMAT parquet, COMPRESSION zstd)"
        database.execute(query, values)
