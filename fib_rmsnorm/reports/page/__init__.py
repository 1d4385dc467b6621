"""A report as one HTML file that needs no network: who wins, charts, tables and sources."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files

from fib_rmsnorm.analysis.results import Result
from fib_rmsnorm.analysis.roofline import SectionFindings
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.reports.charts import make_charts, number_series
from fib_rmsnorm.reports.findings import describe_section
from fib_rmsnorm.reports.legend import LEGEND
from fib_rmsnorm.reports.ranking import describe_left_out, winners_grid
from fib_rmsnorm.reports.results import result_columns, section_title, summarize_ranking
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.schema import Solution


def make_page(sections: Sequence[SectionFindings], solutions: dict[str, Solution], superseded: int) -> str:
    """Fill in the template, with the charts of each section.

    It escapes every value but those marked `safe`, which no Trace can write.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    written = (describe_left_out, describe_section, describe_source, result_columns, section_title)
    environment.globals |= {each.__name__: each for each in (*written, summarize_ranking, title_of, winners_grid)}
    charts = [make_charts(each) for each in sections]
    shown = {result.record.solution for each in sections for result in each.results.results}
    return environment.from_string(_read_asset("page.html")).render(
        style=_read_asset("page.css"),
        script=_read_asset("page.js"),
        summary=_summary(sections, superseded),
        legend=LEGEND,
        sections=sections,
        solutions=[solutions[name] for name in sorted(shown) if name in solutions],
        charts={
            "numbers": number_series(chart for each in charts for chart in each),
            "sections": [[asdict(chart) for chart in each] for each in charts],
        },
    )


def _read_asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _summary(sections: Sequence[SectionFindings], superseded: int) -> str:
    records = [result.record for each in sections for result in each.results.results]
    newest = max((record.timestamp for record in records), default="")
    told = f"{count(len(records), 'result')} in {count(len(sections), 'section')}, the newest of {newest[:10]}."
    if superseded:
        told += f" {count(superseded, 'older Trace')} left out: only the newest of equal evaluations counts."
    return f"{told} Numbers of other devices, timers or clocks cannot be compared and have sections of their own."


def describe_source(result: Result) -> str:
    """Why a number is noisy, or the first line of a failure's log, and where its Trace is."""
    record = result.record
    failure = [] if record.passed else record.log.strip().splitlines()[:1]
    return "; ".join([*record.noisy, *failure, record.place])
