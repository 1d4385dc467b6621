"""Put a fault into a record or another file, and read what `validate` says of it."""

import json
from pathlib import Path


def edit(file: str, *path_and_value, line: int = 1) -> None:
    """Set (or with ... remove) a value deep in a record: in a JSON file, or in one line of a JSONL file."""
    *path, last, value = path_and_value
    is_json = file.endswith(".json")
    texts = [Path(file).read_text()] if is_json else Path(file).read_text().splitlines()
    record = json.loads(texts[line - 1])
    place = record
    for part in path:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    texts[line - 1] = json.dumps(record, indent=2 if is_json else None)
    Path(file).write_text("\n".join(texts) + "\n")


def edit_text(file: Path | str, old: str, new: str) -> None:
    """Replace the first of a text that a file has."""
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))


def errors_of(outcome) -> list[str]:
    assert outcome.code == (1 if " error: " in outcome.out else 0)
    assert outcome.lines[-1].startswith("Not valid: " if outcome.code else "Valid: ")
    return [line for line in outcome.lines if ": error: " in line]
