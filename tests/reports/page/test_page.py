"""`report --format html` and `--plots`: the page is tried in a real browser where there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from fib_rmsnorm import load
from fib_rmsnorm.reports.page.page_results import trust_line
from fib_rmsnorm.reports.text.units import format_latency
from support.paths import PUBLISHED, REPOSITORY
from support.trace_json import lines, trace

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Clicks as a reader would, and leaves what it sees in the page.
TRIAL = """
<script>
const said = { errors: window.failures };
const table = document.querySelector(".sortable");
const column = (name) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === name);
const visible = () => [...table.tBodies].filter((body) => !body.hidden);
const read = (name) => visible().map((body) => body.rows[0].cells[column(name)].textContent);
const click = (name) => table.tHead.rows[0].cells[column(name)].querySelector("button").click();
said.charts = document.querySelectorAll(".chart svg[role=img]").length;
const parts = (figure) => figure.querySelectorAll("svg[role=img] > *").length;
said.drawn = [...document.querySelectorAll(".chart")].every((figure) => parts(figure) > 10);
click("latency"); said.ascending = read("latency")[0];
click("latency"); said.descending = read("latency")[0];
click("over baseline"); said.unknownLast = read("over baseline").at(-1);
const filter = document.querySelector(".filter");
filter.value = "cuda batch=512"; filter.dispatchEvent(new Event("input"));
said.filtered = read("solution");
filter.value = ""; filter.dispatchEvent(new Event("input"));
const chart = document.querySelector(".chart"), lines = () => chart.querySelectorAll("svg[role=img] polyline").length;
said.lines = lines();
chart.querySelector(".legend button").click();
said.linesWithoutOne = lines();
const box = chart.querySelector("svg[role=img]").getBoundingClientRect();
const at = { clientX: box.left + 62 + 20, clientY: box.top + box.height / 2, bubbles: true };
for (let y = 10; y < box.height && !said.tip; y += 15) {
  chart.querySelector("svg[role=img]").dispatchEvent(new PointerEvent("pointermove", { ...at, clientY: box.top + y }));
  said.tip = chart.querySelector(".tip").hidden ? "" : chart.querySelector(".tip").textContent;
}
said.overflows = document.documentElement.scrollWidth > window.innerWidth;
said.background = getComputedStyle(document.body).backgroundColor;
document.body.append(Object.assign(document.createElement("pre"), { id: "said", textContent: JSON.stringify(said) }));
</script>
"""


@pytest.fixture
def page(fib, tmp_path):
    """The page of the published Traces."""
    path = tmp_path / "report.html"
    outcome = fib("report", PUBLISHED, "--output", path)
    assert outcome.code == 0, outcome.err
    return path


def try_in_browser(page: Path, width: int, *, dark: bool) -> dict:
    text = page.read_text()
    watched = text.replace("<head>", "<head><script>window.failures = []; onerror = (e) => failures.push(e)</script>")
    trial = page.with_name("trial.html")
    trial.write_text(watched.replace("</body>", f"{TRIAL}</body>"))
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"),
        *(f"--window-size={width},900", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
        *("--virtual-time-budget=3000", "--dump-dom", trial.as_uri()),
    ]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90)
    found = re.search(r'<pre id="said">(.*?)</pre>', result.stdout)
    assert found, result.stdout[-500:]
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (500, True)])
def test_in_a_browser(page, width, dark):
    said = try_in_browser(page, width, dark=dark)
    assert said["errors"] == []
    assert said["charts"] == 6 and said["drawn"]
    latencies = sorted(record.latency_ms for record in load(PUBLISHED))
    assert (said["ascending"], said["descending"]) == (format_latency(latencies[0]), format_latency(latencies[-1]))
    assert said["unknownLast"] == ""
    assert said["filtered"] == ["rmsnorm_cuda_vec16_v1"]
    assert said["linesWithoutOne"] == said["lines"] - 1
    assert "batch=1" in said["tip"] and "median latency (us)" in said["tip"]
    assert not said["overflows"]
    assert said["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


def test_the_page_needs_no_network(page):
    text = page.read_text()
    assert not re.search(r"""(src|href)=["']?(https?:)?//|url\(|@import|fetch\(|XMLHttpRequest""", text)


def test_every_number_has_its_trust_line_and_every_kernel_its_source(page):
    text = page.read_text()
    records = load(PUBLISHED)
    assert text.count('<tr class="trust">') == len(records)
    for record in records:
        for part in (f"cupti · {record.samples} calls in {record.trials} trials", *record.suspect):
            assert part in trust_line(record) and part in unescape(text)
    for name in ("rmsnorm_cuda_vec16_v1", "rmsnorm_triton_tutorial_v1"):
        assert f"<summary><strong>{name}</strong>" in text


def test_what_strangers_write_is_shown_and_not_obeyed(fib, tmp_path):
    bad = "</script><script>alert(1)</script>"
    path, target = tmp_path / "t.jsonl", tmp_path / "r.html"
    failed = trace(f"{bad}b", latency_ms=None)
    failed["evaluation"]["log"] = bad
    path.write_text(lines(trace(f"{bad}a", hardware=f"GPU {bad}", suspect=[bad]), failed))
    assert fib("report", path, "--output", target).code == 0
    assert bad not in target.read_text()


def test_jinja2_is_imported_only_to_make_the_page():
    check = "import sys; from fib_rmsnorm.reports import page; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})


@pytest.mark.slow
def test_plots_are_drawn_twice_and_alike(fib, tmp_path):
    pytest.importorskip("matplotlib")
    for folder in ("one", "two"):
        outcome = fib("report", PUBLISHED, "--plots", tmp_path / folder, "--format", "csv")
        assert outcome.code == 0 and "Wrote 12 charts" in outcome.err
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names[0] == "rmsnorm-d4096-on-nvidia-h200-cupti-1980-mhz-cold-l2-bandwidth.png" and len(names) == 12
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_without_matplotlib_it_says_what_to_install(fib, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = fib("report", PUBLISHED, "--plots", tmp_path)
    assert outcome.code == 2 and "pip install 'fib-rmsnorm[plots]'" in outcome.err
