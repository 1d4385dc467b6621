"""Whatever strangers wrote, no terminal obeys it, and no Markdown viewer runs it."""

import json
import re
import shutil

import pytest

from fib_rmsnorm.reports.text.control_characters import harmless, one_line
from fib_rmsnorm.schema import digest
from support import full_registry as full
from support.record_faults import edit

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0041]")
OBEYED_AND_UNSEEN = "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\r\u202eabc\u2066\u200b\ufeff\U000e0041\u2028"
EVIL = f"{OBEYED_AND_UNSEEN}<img src=x onerror=alert(1)>|`=1+1\nforged line"
COMMANDS = [*full.ANALYSES, *full.CATALOGUES, *((*each, "--json") for each in (*full.ANALYSES, *full.CATALOGUES))]


@pytest.fixture
def evil_registry(full_registry):
    """A registry in which every text that may hold anything holds the worst."""
    edit(full.DEFINITION_FILE, "description", EVIL)
    edit(full.DEFINITION_FILE, "tags", [EVIL])
    shutil.rmtree(full_registry.root / full.PYTHON_FOLDER)  # its sources would be packed again
    edit(full.PYTHON_FILE, "description", EVIL)
    edit(full.PYTHON_FILE, "sources", 0, "content", f"# {EVIL}\n")
    of_this = digest(full_registry.definition(full.DEFINITION))  # Traces of another version would be left out
    for line in (1, 2):
        edit(full.PYTHON_TRACES, "evaluation", "definition_sha256", of_this, line=line)
        edit(full.CUDA_TRACES, "evaluation", "definition_sha256", of_this, line=line)
        edit(full.PYTHON_TRACES, "evaluation", "log", EVIL, line=line)
        edit(full.PYTHON_TRACES, "evaluation", "environment", "hardware", EVIL, line=line)
        edit(full.PYTHON_TRACES, "evaluation", "environment", "libs", {EVIL: EVIL}, line=line)
        edit(full.PYTHON_TRACES, "evaluation", "performance", "noisy", [EVIL], line=line)
        edit(full.PYTHON_TRACES, "evaluation", "performance", "timer", EVIL, line=line)
        edit(full.PYTHON_TRACES, "evaluation", "correctness", "extra", {EVIL: EVIL}, line=line)
    edit(full.CUDA_TRACES, "solution", EVIL, line=1)
    edit(full.CUDA_TRACES, "evaluation", "environment", "hardware", EVIL[::-1], line=1)
    edit(full.CUDA_TRACES, "evaluation", "timestamp", EVIL, line=2)
    return full_registry


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_what_a_terminal_obeys(fib, evil_registry, command):
    outcome = fib(*command)
    assert outcome.code in (0, 1, 2)
    assert not OBEYED.search(outcome.out + outcome.err)
    assert len(outcome.out + outcome.err) > 20
    if command[0] != "show" and command[-1] != "html":  # there, lines are quoted
        assert not [line for line in outcome.lines if line.startswith("forged line")]
    if "--json" in command or "json" in command:
        assert outcome.json


@pytest.mark.parametrize("command", [("report",), ("best",), ("show", full.PYTHON), ("list", "traces"), ("analyze",)])
def test_a_terminal_gets_the_colors_of_the_tool_alone(fib, evil_registry, monkeypatch, command):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = fib(*command).out
    assert not OBEYED.search(re.sub(r"\x1b\[[\d;]*m", "", out))
    assert "\x1b[" in out


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\u202eb", "--\x9b31m"])
def test_no_error_message_prints_it(fib, full_registry, name):
    for command in (("show", name), ("report", name), ("bench", "--definitions", name), ("--root", name)):
        outcome = fib(*command)
        assert outcome.code == 2
        assert not OBEYED.search(outcome.err.replace("\n", ""))


def test_a_file_gets_none_either(fib, evil_registry, tmp_path):
    assert fib("report", "-o", tmp_path / "report.html").code == 0
    assert not OBEYED.search((tmp_path / "report.html").read_text())


def test_json_means_the_same(fib, evil_registry):
    assert fib("show", full.PYTHON, "--json").json["description"] == EVIL


def test_what_is_harmless_stays():
    for text in ("1 ± 2 µs, 中文, naïve", "a\n\tb", ""):
        assert harmless(text) == text
    assert harmless("\x1b[31mred\x1b[0m\r\nline") == "red\nline"
    assert one_line("a\nb") == r"a\u000ab"


def test_two_names_that_look_alike_do_not():
    shown = [harmless(f"a{unseen}") for unseen in ("", "\u200b", "\xad", "\u2060", "\u3164", "\U000e0041")]
    assert shown == ["a", r"a\u200b", r"a\u00ad", r"a\u2060", r"a\u3164", r"a\udb40\udc41"]
    assert json.loads(f'"{shown[-1]}"') == "a\U000e0041"
