"""The site: every link of it leads somewhere, and its search finds pages in a browser."""

from __future__ import annotations

import http.server
import queue
import shutil
import subprocess
import sys
import threading
from functools import partial

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


PROBE = """\
<iframe src="index.html?q=subreaper"></iframe>
<script>
  const found = () => document.querySelector("iframe").contentDocument.querySelector(".md-search-result__link");
  setInterval(() => found()?.click(), 200);
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_search_finds_a_page_in_a_browser(site, tmp_path):
    (site / "probe.html").write_text(PROBE)
    asked: queue.Queue = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.put(self.path)
            super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/probe.html"
        options = ["--headless", "--no-sandbox", f"--user-data-dir={tmp_path}", "--remote-debugging-port=0"]
        with subprocess.Popen([CHROMIUM, *options, url], stderr=subprocess.DEVNULL) as browser:
            try:
                opened = next(path for path in iter(partial(asked.get, timeout=120), None) if "?h=" in path)
            finally:
                browser.terminate()
        server.shutdown()
    assert "subreaper" in (site / opened.lstrip("/").partition("?")[0]).read_text()
