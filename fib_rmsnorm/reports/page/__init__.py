"""A report as one HTML file that needs no network: who wins, charts, tables, how sure numbers are, and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.ranking import Ranking, rank
from fib_rmsnorm.analysis.side_by_side import find_side_by_side
from fib_rmsnorm.analysis.solution_sources import SolutionFacts
from fib_rmsnorm.reports.charts import Chart, number_series
from fib_rmsnorm.reports.findings import describe_section
from fib_rmsnorm.reports.page.page_results import ResultTable, make_table
from fib_rmsnorm.reports.page.page_sources import highlighting_css, show_solution
from fib_rmsnorm.reports.ranking import describe_left_out, summarize_ranking, winners_grid
from fib_rmsnorm.reports.results import section_title
from fib_rmsnorm.reports.side_by_side import side_by_side_grid, side_by_side_notes, side_by_side_title
from fib_rmsnorm.reports.text.document import Doubt, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import count


@dataclass(frozen=True)
class PageSection:
    """What the page shows of a section."""

    findings: SectionFindings
    charts: Sequence[Chart]

    @property
    def title(self) -> str:
        """What was measured, and how."""
        return section_title(self.findings.results)

    @cached_property
    def ranking(self) -> Ranking:
        """Who wins where."""
        return rank(self.findings.results)

    @property
    def answer(self) -> str:
        """Who wins most, and how far the winners are from the copy."""
        return summarize_ranking(self.ranking)

    @property
    def winners(self) -> Grid:
        """The winner of each Workload."""
        return winners_grid(self.ranking)

    @property
    def left_out(self) -> list[Doubt]:
        """Who cannot win, and why."""
        return list(describe_left_out(self.ranking.contests))

    @property
    def table(self) -> ResultTable:
        """The results, for a table that a browser sorts and filters."""
        return make_table(self.findings.results)

    @property
    def parts(self) -> list[tuple[str, Part]]:
        """What the results say, each part with the name of its kind."""
        return [(type(part).__name__, part) for part in describe_section(self.findings)]


def make_page(sections: Sequence[PageSection], solutions: dict[str, SolutionFacts], superseded: int) -> str:
    """Fill in the template. It escapes every value but those marked `safe`, which no Trace can write."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    shown = {result.record.solution for each in sections for result in each.findings.results.results}
    return environment.from_string(_read_asset("page.html")).render(
        style=_read_asset("page.css") + highlighting_css(),
        script=_read_asset("page.js"),
        summary=_summary(sections, superseded),
        sections=sections,
        devices=[
            (side_by_side_title(each), side_by_side_grid(each), list(side_by_side_notes(each)))
            for each in find_side_by_side(each.findings.results for each in sections)
        ],
        solutions=[show_solution(solutions[name]) for name in sorted(shown) if name in solutions],
        charts={
            "numbers": number_series(chart for each in sections for chart in each.charts),
            "sections": [[asdict(chart) for chart in each.charts] for each in sections],
        },
    )


def _read_asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _summary(sections: Sequence[PageSection], superseded: int) -> str:
    records = [result.record for each in sections for result in each.findings.results.results]
    newest = max((record.timestamp for record in records), default="")
    told = f"{count(len(records), 'result')} in {count(len(sections), 'section')}, the newest of {newest[:10]}."
    if superseded:
        told += f" {count(superseded, 'older Trace')} left out: only the newest of equal evaluations counts."
    return f"{told} Numbers of other devices, timers or clocks cannot be compared and have sections of their own."
