"""Pages: their links and shown commands, the tests that they name, and the images made of what the wheel needs."""

import re
import shlex
from pathlib import Path

import pytest

from fib_rmsnorm.registry.store import read_toml
from support.paths import REPOSITORY, TESTS

PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "experiments").glob("*.md")]
)
GENERATED = ("cli.md", "explained.md", "results.md")
MOST_LINES = 150
"""Of a page that is read from its start to its end; what is longer belongs in docs/appendix/."""

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    targets = LINK.findall(CODE.sub("", FENCE.sub("", page.read_text())))
    inside = [target for target in targets if not target.startswith("https://")]
    assert [target for target in inside if not leads_somewhere(page, target)] == []


def test_a_page_says_only_what_a_reader_needs():
    pages = [
        REPOSITORY / "README.md",
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "docs" / "exercises").glob("*.md"),
    ]
    lines = {page.name: len(page.read_text().splitlines()) for page in pages if page.name not in GENERATED}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    assert lines["README.md"] <= 120


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    return path.is_relative_to(REPOSITORY) and path.exists() and (not anchor or anchor in anchors(path))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


CI_PAGE = REPOSITORY / "docs" / "ci.md"
WORKFLOWS = sorted((REPOSITORY / "docs" / "examples" / "ci").glob("*.yml"))
COMPARED = re.findall(r"^\$ fib-rmsnorm (compare .+)\n((?:.*\n)*?)exit code (\d)$", CI_PAGE.read_text(), re.MULTILINE)


def test_the_ci_page_shows_what_a_gate_prints_that_fails_and_one_that_cannot_judge(fib, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert [code for _, _, code in COMPARED] == ["1", "2"]
    for arguments, said, code in COMPARED:
        outcome = fib(*shlex.split(arguments))
        assert (outcome.code, outcome.out + outcome.err) == (int(code), said)


@pytest.mark.parametrize("page", [CI_PAGE, *WORKFLOWS], ids=lambda page: page.name)
def test_every_command_for_ci_has_the_options_that_it_is_given(page):
    cli = (REPOSITORY / "docs" / "cli.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n\n```\n(.*?)^```", cli, re.MULTILINE | re.DOTALL))
    used = re.findall(rf"(?:fib-rmsnorm |`)({'|'.join(sections)})\b([^`\n]*)", page.read_text())
    assert len(used) >= 4
    for command, rest in used:
        for option in re.findall(r"--[a-z][a-z-]*", rest):
            assert option in sections[command], f"{command} has no {option}"


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
def test_an_image_gets_what_the_wheel_consists_of_and_extras_and_has_a_home_for_any_user_but_root(image):
    text = image.read_text()
    lines = text.splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert [name for name in copied if not (REPOSITORY / name).exists()] == []
    settings = read_toml(REPOSITORY / "pyproject.toml")
    wheel, project = settings["tool"]["hatch"]["build"]["targets"]["wheel"], settings["project"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"]}
    assert needed | {*wheel["packages"], *wheel["force-include"]} <= set(copied)
    (user,) = (line.split()[1] for line in lines if line.startswith("USER "))
    assert int(user) > 0
    extras = [extra for group in re.findall(r'"\.\[([\w,-]+)\]"', text) for extra in group.split(",")]
    assert extras
    assert "--constraint constraints.txt " in text  # else pip trades the torch for the newest of another package
    assert [extra for extra in extras if extra not in project["optional-dependencies"]] == []
    # The home is a tmpfs, and runc gives it the mode of the image's folder, whatever mode --tmpfs names.
    (home,) = re.findall(r"^ENV .*\bHOME=(\S+)", text, re.MULTILINE)
    assert f"install --directory --mode 1777 {home}\n" in text
    assert f"--tmpfs {home}:rw,exec,mode=1777" in PAGE
