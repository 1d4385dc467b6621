"""The page on threats names tests that exist, and the images are made of what the wheel needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.paths import REPOSITORY, TESTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = (REPOSITORY / "docs" / "threats.md").read_text()
PROOF = re.compile(r"`([\w/]+\.(?:py|cpp|cu))(?:::(\w+))?`")
ROWS = [
    line
    for table in re.findall(r"^\| it tries to .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    for line in table.splitlines()
]
IMAGES = sorted((REPOSITORY / "containers").iterdir())


def test_every_threat_that_is_stopped_names_its_proof():
    assert len(ROWS) >= 30
    assert [row for row in ROWS if not PROOF.search(row.rpartition(" | ")[2])] == []


def test_every_proof_is_a_test_or_a_wrong_kernel():
    missing = [f"{path}::{name}" for path, name in PROOF.findall(PAGE) if not is_proof(TESTS / path, name)]
    assert missing == []


def is_proof(file: Path, test: str) -> bool:
    if not file.is_file():
        return False
    if not test:
        return file.relative_to(TESTS).parts[0] == "wrong_kernels"
    return re.search(rf"^def {test}\(", file.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_an_image_gets_what_the_wheel_consists_of_and_ends_as_no_root(image):
    lines = image.read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert [name for name in copied if not (REPOSITORY / name).exists()] == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed | {*wheel["packages"], *wheel["force-include"]} <= set(copied)
    (user,) = (line.split()[1] for line in lines if line.startswith("USER "))
    assert int(user) > 0


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_an_image_installs_extras_that_exist_and_has_a_home_for_any_user(image):
    text = image.read_text()
    extras = [extra for group in re.findall(r'"\.\[([\w,-]+)\]"', text) for extra in group.split(",")]
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras
    assert "--constraint constraints.txt " in text  # else pip trades the torch for the newest of another package
    assert [extra for extra in extras if extra not in known] == []
    # The home is a tmpfs, and runc gives it the mode of the image's folder, whatever mode --tmpfs names.
    (home,) = re.findall(r"^ENV .*\bHOME=(\S+)", text, re.MULTILINE)
    assert f"install --directory --mode 1777 {home}\n" in text
    assert f"--tmpfs {home}:rw,exec,mode=1777" in PAGE
