"""Tables without rules: a header, aligned columns, nothing that gets in the way of grep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> Table:
    """A table of `rows`; a column whose name begins with `>` is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False)
    for column in columns:
        is_right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
