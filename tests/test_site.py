"""The site: every link of it leads somewhere, and its search finds pages in a browser."""

import http.server
import json
import queue
import shutil
import subprocess
import sys
import threading
from functools import partial
from urllib.parse import unquote

import pytest

from support.command_line import run_python
from support.paths import REPOSITORY

pytestmark = pytest.mark.process
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. Its build is strict: it fails at a link that leads nowhere."""
    pytest.importorskip("mkdocs", reason="`make site` installs what builds the site")
    folder = tmp_path_factory.mktemp("site")
    run_python(REPOSITORY / "tools" / "make_site.py", cwd=REPOSITORY)
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)], check=True, cwd=REPOSITORY)
    return folder


def test_the_site_has_the_readme_the_api_the_charts_and_what_pages_link_to(site):
    assert 'href="measuring.html"' in (site / "index.html").read_text()
    assert 'id="fib_rmsnorm.load"' in (site / "python.html").read_text()
    assert 'href="charts/rmsnorm_d4096.html"' in (site / "charts.html").read_text()
    assert 'href="examples/ideas/index.html"' in (site / "kernels.html").read_text()


SEARCH = """\
<iframe src="index.html?q=subreaper"></iframe>
<script>
  const found = () => document.querySelector("iframe").contentDocument.querySelector(".md-search-result__link");
  setInterval(() => found()?.click(), 200);
</script>
"""

# Opens each page as wide as a window and as a telephone, and points at a line of a chart.
LOOK = """\
<iframe style="border: 0"></iframe>
<script>
const frame = document.querySelector("iframe"), found = { tooWide: [] };
const open = (page, width) => new Promise((resolve) => {
  Object.assign(frame.style, { width: width + "px", height: "900px" });
  frame.onload = () => setTimeout(() => resolve(frame.contentDocument), 300);
  frame.src = page;
});
const look = async () => {
  for (const width of [1280, 390])
    for (const page of PAGES) {
      const seen = (await open(page, width)).documentElement.scrollWidth;
      if (seen > width) found.tooWide.push([page, width, seen]);
    }
  const chart = (await open("charts/rmsnorm_d4096.html", 1280)).querySelector(".chart");
  const svg = chart.querySelector("svg"), box = svg.getBoundingClientRect(), tip = chart.querySelector(".tip");
  for (let y = 10; y < box.height && tip.hidden; y += 15)
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 82, clientY: box.top + y, bubbles: true }));
  found.tip = tip.textContent;
  fetch("found?" + encodeURIComponent(JSON.stringify(found)));
};
look();
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_search_finds_a_page_in_a_browser(site, tmp_path):
    opened = browse(site, tmp_path, SEARCH, until="?h=")
    assert "subreaper" in (site / opened.lstrip("/").partition("?")[0]).read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_no_page_is_wider_than_a_window_or_a_telephone_and_charts_show_their_values(site, tmp_path):
    pages = [
        "index.html",
        "first_hour.html",
        "measuring.html",
        "cli.html",
        "python.html",
        "results.html",
        "charts.html",
    ]
    opened = browse(site, tmp_path, LOOK.replace("PAGES", json.dumps(pages)), until="found?")
    found = json.loads(unquote(opened.partition("?")[2]))
    assert found["tooWide"] == []
    assert found["tip"].endswith("% of copy"), "the value at the pointer"


def browse(site, profile, probe: str, until: str) -> str:
    """Open a page that does what a reader would, and return the first request whose path has `until`."""
    (site / "probe.html").write_text(probe)
    asked: queue.Queue = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.put(self.path)
            super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/probe.html"
        options = ["--headless", "--no-sandbox", f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        with subprocess.Popen([CHROMIUM, *options, url], stderr=subprocess.DEVNULL) as browser:
            try:
                return next(path for path in iter(partial(asked.get, timeout=120), None) if until in path)
            finally:
                browser.terminate()
                server.shutdown()
