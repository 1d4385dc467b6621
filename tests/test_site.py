"""The site: every link of it leads somewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.command_line import run_python
from support.paths import REPOSITORY

pytestmark = pytest.mark.process


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
