"""Check that a release can be made, and write its CHANGELOG from the fragments in changes/; `make release`.

Run it on a clean checkout. It builds the wheel, makes and validates a registry with it outside of the checkout, and
stops at the first fault. What it changes is left to commit and to tag.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"


def read_version() -> str:
    """The version in pyproject.toml."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        sys.exit("pyproject.toml: no version")
    return found[1]


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command and return its output; end with its error if it fails."""
    environment = {**os.environ, **variables}
    found = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {found.stderr.strip() or found.stdout.strip()}")
    return found.stdout.strip()


def check_wheel(version: str, folder: Path) -> Path:
    """Build the wheel, and use it without the checkout: it has its version and a valid registry."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", ROOT / "dist", ROOT)
    wheel = ROOT / "dist" / f"fib_rmsnorm-{version}-py3-none-any.whl"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "site", wheel)

    def tool(*arguments: str) -> str:
        return run(sys.executable, "-m", "fib_rmsnorm", *arguments, cwd=folder, PYTHONPATH=str(folder / "site"))

    if (printed := tool("--version")) != f"fib-rmsnorm {version}":
        sys.exit(f"{wheel.name} says that it is {printed}")
    tool("init", "registry")
    tool("validate", "registry")
    return wheel


def write_changelog(version: str) -> None:
    """Move the fragments to the CHANGELOG, or date the heading of the version if it has been written by hand."""
    text = CHANGELOG.read_text(encoding="utf-8")
    heading = f"## {version} (unreleased)"
    if any(path.name != "README.md" for path in (ROOT / "changes").iterdir()):
        if f"## {version} " in text:
            sys.exit(f"CHANGELOG.md has {version} already: raise the version in pyproject.toml, or add to its text")
        run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    elif heading in text:
        CHANGELOG.write_text(text.replace(heading, f"## {version} ({date.today()})"), encoding="utf-8")
    else:
        sys.exit(f"nothing to release: changes/ has no fragment, and CHANGELOG.md no {heading!r}")


def main() -> None:
    """Check everything, then write."""
    if changed := run("git", "status", "--porcelain"):
        sys.exit(f"commit or remove these first:\n{changed}")
    version = read_version()
    with tempfile.TemporaryDirectory() as folder:
        wheel = check_wheel(version, Path(folder))
    write_changelog(version)
    print(f"{wheel.relative_to(ROOT)} is right. Next: git commit -am 'Release {version}' && git tag v{version}")


if __name__ == "__main__":
    main()
