"""A report as one HTML file that needs no network: charts, tables, what to trust, and the kernels' sources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.solution_sources import SolutionFacts
from fib_rmsnorm.reports.charts import Chart
from fib_rmsnorm.reports.findings import describe_section
from fib_rmsnorm.reports.page.page_results import results_table
from fib_rmsnorm.reports.page.page_sources import highlighting_css, sources_html
from fib_rmsnorm.reports.results import section_title
from fib_rmsnorm.reports.text.document import as_html
from fib_rmsnorm.reports.text.units import count


@dataclass(frozen=True)
class PageSection:
    """What the page shows of a section."""

    findings: SectionFindings
    charts: Sequence[Chart]


def make_page(sections: Sequence[PageSection], solutions: dict[str, SolutionFacts], superseded: int) -> str:
    """The whole page."""
    shown = {result.record.solution for each in sections for result in each.findings.results.results}
    facts = [solutions[name] for name in sorted(shown) if name in solutions]
    assets = files(__package__)
    style = (assets / "page.css").read_text(encoding="utf-8") + highlighting_css()
    script = (assets / "page.js").read_text(encoding="utf-8")
    titles = [section_title(each.findings.results) for each in sections]
    parts = [
        _section_html(number, title, each) for number, (title, each) in enumerate(zip(titles, sections, strict=True))
    ]
    data = [[asdict(chart) for chart in each.charts] for each in sections]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>fib-rmsnorm report</title>
<style>
{style}
</style>
</head>
<body>
<header>
<h1>Benchmark report</h1>
<p>{escape(_summary(sections, superseded))}</p>
{_navigation(titles, has_sources=bool(facts))}
</header>
<main>
{"".join(parts)}
{sources_html(facts)}
</main>
<script type="application/json" id="charts">{_embed(data)}</script>
<script>
{script}
</script>
</body>
</html>
"""


def _embed(data: object) -> str:
    """JSON that cannot end the element it stands in, whatever a Solution is called."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _summary(sections: Sequence[PageSection], superseded: int) -> str:
    records = [result.record for each in sections for result in each.findings.results.results]
    newest = max((record.timestamp for record in records), default="")
    told = f"{count(len(records), 'result')} in {count(len(sections), 'section')}, the newest of {newest[:10]}."
    if superseded:
        told += f" {count(superseded, 'older Trace')} left out: of equal evaluations the newest counts."
    return f"{told} Numbers of other devices, timers or clocks are in sections of their own: they do not compare."


def _navigation(titles: Iterable[str], *, has_sources: bool) -> str:
    links = [f'<a href="#section-{number}">{escape(title)}</a>' for number, title in enumerate(titles)]
    if has_sources:
        links.append('<a href="#sources">Sources</a>')
    return f"<nav>{''.join(links)}</nav>"


def _section_html(number: int, title: str, section: PageSection) -> str:
    charts = "".join(
        f'<figure class="chart" data-section="{number}" data-chart="{index}"><figcaption>{escape(chart.title)}'
        f"</figcaption></figure>"
        for index, chart in enumerate(section.charts)
    )
    return f"""<section id="section-{number}">
<h2>{escape(title)}</h2>
<h3>Results</h3>
{results_table(section.findings.results)}
<h3>Charts</h3>
<div class="charts">{charts}</div>
{as_html(describe_section(section.findings))}
</section>
"""
