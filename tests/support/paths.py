"""Where the tests and what they test lie."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
PUBLISHED = REPOSITORY / "traces" / "published" / "norm" / "rmsnorm_d4096.jsonl"
"""Evidence that no bench changes. Tests read it, and never the folders of authors, which are whoever benched here's."""


def write(path: Path | str, text: str) -> Path:
    """Write a file, in a folder that is made if need be, and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files below a folder, by their path in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
