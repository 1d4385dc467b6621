"""`report --output page.html`: the page is tried in a real browser where there is one."""

import json
import re
import shutil
import subprocess
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from fib_rmsnorm import load
from fib_rmsnorm.reports.text.units import format_latency
from support.command_line import run_python
from support.paths import PUBLISHED, write
from support.trace_json import trace

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
click("vs torch"); said.unknownLast = read("vs torch").at(-1);
const filter = document.querySelector(".filter");
filter.value = "cuda batch=512"; filter.dispatchEvent(new Event("input"));
said.filtered = read("solution");
filter.value = ""; filter.dispatchEvent(new Event("input"));
const figures = [...document.querySelectorAll(".chart")], chart = figures[1];
const lines = () => chart.querySelectorAll("svg[role=img] polyline").length;
said.lines = lines();
chart.querySelector(".legend button").click();
said.linesWithoutOne = lines();
const box = chart.querySelector("svg[role=img]").getBoundingClientRect();
const at = { clientX: box.left + 62 + 20, clientY: box.top + box.height / 2, bubbles: true };
for (let y = 10; y < box.height && !said.tip; y += 15) {
  chart.querySelector("svg[role=img]").dispatchEvent(new PointerEvent("pointermove", { ...at, clientY: box.top + y }));
  said.tip = chart.querySelector(".tip").hidden ? "" : chart.querySelector(".tip").textContent;
}
const edge = Math.max(...visible().map((body) => body.rows[0].cells[column("latency")].getBoundingClientRect().right));
said.latencyIsOnScreen = edge <= window.innerWidth;
said.winnersAreOnScreen = document.querySelector("#answer table").getBoundingClientRect().right <= window.innerWidth;
const keys = (figure) => [...figure.querySelectorAll(".legend button")];
const look = (key) => {
  const [line, mark] = [key.querySelector("line"), key.querySelector("path")];
  const drawn = line ? [line.getAttribute("stroke-dasharray"), getComputedStyle(line).stroke] : [];
  return [...drawn, mark && getComputedStyle(mark).fill, mark?.getAttribute("d")].join(" ");
};
said.looks = figures.map((figure) => keys(figure).map(look));
const lettered = (figure) => keys(figure).filter((key) => key.querySelector("b"));
const identity = (key) => key.textContent + key.querySelector("path").outerHTML;
said.kernels = figures.map((figure) => lettered(figure).map(identity));
const letters = [...figures[0].querySelectorAll("text.letter")];
said.letters = letters.map((text) => text.textContent).sort();
said.letterPlaces = letters.map((text) => +text.getAttribute("y")).sort((one, other) => one - other);
said.overflows = document.documentElement.scrollWidth > window.innerWidth;
said.background = getComputedStyle(document.body).backgroundColor;
document.body.append(Object.assign(document.createElement("pre"), { id: "said", textContent: JSON.stringify(said) }));
</script>
"""

FRAME = """
<iframe src="trial.html" style="width: {width}px; height: 900px; border: 0"></iframe>
<script>
onload = () => document.body.append(document.adoptNode(frames[0].document.getElementById("said")));
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
    write(page.with_name("trial.html"), watched.replace("</body>", f"{TRIAL}</body>"))
    # As narrow as it is asked to be: a window is not.
    frame = write(page.with_name("frame.html"), FRAME.format(width=width))
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"),
        *("--window-size=1500,900", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
        *("--allow-file-access-from-files", "--virtual-time-budget=3000", "--dump-dom", frame.as_uri()),
    ]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90)
    found = re.search(r'<pre id="said">(.*?)</pre>', result.stdout)
    assert found, result.stdout[-500:]
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_in_a_browser(page, width, dark):
    said = try_in_browser(page, width, dark=dark)
    assert said["errors"] == []
    assert said["charts"] == 2 and said["drawn"]
    latencies = sorted(record.latency_ms for record in load(PUBLISHED))
    shown = [said[order].partition(" ±")[0] for order in ("ascending", "descending")]
    assert shown == [format_latency(latencies[0]), format_latency(latencies[-1])]
    assert said["unknownLast"] == ""
    assert said["filtered"] == ["rmsnorm_cuda_vec16_v1"]
    assert said["linesWithoutOne"] == said["lines"] - 1
    assert "batch=1" in said["tip"] and "median latency (us)" in said["tip"]
    assert not said["overflows"] and said["latencyIsOnScreen"] and said["winnersAreOnScreen"]
    assert said["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    for looks in said["looks"]:
        assert len(set(looks)) == len(looks) >= 10, "two kernels look alike"
    (alike,) = {tuple(kernels[:10]) for kernels in said["kernels"]}
    assert alike[0].startswith("Armsnorm_cuda_vec16_v1"), "a kernel looks the same in every chart"
    assert said["letters"] == list("ABCDEFGHIJ"), "each line has its letter at its end"
    assert all(below - above > 9 for above, below in pairwise(said["letterPlaces"])), "no letter covers another"


def test_it_opens_with_who_wins_where_and_how_far_from_the_copy(fib, file, tmp_path):
    target = tmp_path / "r.html"
    path = file(
        *(trace("slow", batch=batch, latency_ms=0.004) for batch in (8, 64, 512)),
        trace("fast", batch=8),
        trace("as_fast", batch=8, latency_ms=0.00201),
        trace("fast", batch=64, latency_ms=0.0015),
        trace("fast", batch=512, latency_ms=0.001, noisy=["the clock moved"]),
    )
    assert fib("report", path, "--output", target).code == 0
    text = unescape(target.read_text())
    assert text.index('id="answer"') < text.index('id="contents"') < text.index('class="filter"')
    answer = text[text.index('id="answer"') : text.index('id="contents"')]
    said = " ".join(re.sub(r"<[^>]*>", " ", answer).split())
    assert (
        "fast is among the fastest on all 3 workloads. The fastest reach 70% to 93% of the speed of a copy of the same"
        " bytes and 30.0x to 60.0x that of the reference." in said
    )
    assert "batch=8 fast 2.00 us 70% 30.0x 1 " in said and "batch=512 fast 1.00 us 140% 60.0x" in said
    assert "<dt>of copy</dt>" in text, "no word has to be looked up elsewhere"
    assert '"name":"copy"' in text and "% of copy by batch" in answer, "its chart stands beside it"


def test_every_number_says_where_its_trace_is_and_every_kernel_its_source_without_a_network(page):
    text = page.read_text()
    assert not re.search(r"""(src|href)=["']?(https?:)?//|url\(|@import|fetch\(|XMLHttpRequest""", text)
    records = load(PUBLISHED)
    told = [unescape(each) for each in re.findall(r'<tr title="(.*?)">', text)]
    assert sorted(told) == sorted("; ".join([*record.noisy, record.place]) for record in records)
    for name in ("rmsnorm_cuda_vec16_v1", "rmsnorm_triton_tutorial_v1"):
        assert f"<summary><strong>{name}</strong>" in text


def test_what_strangers_write_is_shown_and_not_obeyed(fib, file, tmp_path):
    bad = "</script><script>alert(1)</script>"
    target = tmp_path / "r.html"
    failed = trace(f"{bad}b", latency_ms=None)
    failed["evaluation"]["log"] = bad
    path = file(trace(f"{bad}a", hardware=f"GPU {bad}", noisy=[bad]), failed)
    assert fib("report", path, "--output", target).code == 0
    assert bad not in target.read_text()


def test_jinja2_is_imported_only_to_make_the_page():
    run_python("-c", "import sys; from fib_rmsnorm.reports import page; assert 'jinja2' not in sys.modules")
