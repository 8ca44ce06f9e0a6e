"""Write a summary as an HTML report, which is one file without references to other files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from spark.formatting import heads, rows
from spark.headline import headline
from spark.plots import figures
from spark.results import Summary
from spark.section_names import COMPARED, TITLES

MOST_ROWS = 200
"""Maximum number of rows per table on the page; the JSON has all."""
ORDER = (
    COMPARED,
    "episodes",
    "handled",
    "unavailable",
    "leadership",
    "leader_elections",
    "isr_churn",
    "events",
    "elections",
)
"""The first sections; the others follow in the order of the questions."""


def page(summary: Summary, title: str) -> str:
    """Return the page."""
    drawn = figures(summary)
    names = [name for name in dict.fromkeys((*ORDER, *summary.answers)) if len(summary[name])]
    sections = [
        {
            "name": name,
            "title": TITLES[name],
            "figure": Markup(drawn[name].to_json().replace("</", "<\\/")) if name in drawn else None,
            "columns": heads(summary[name]),
            "rows": rows(summary[name], MOST_ROWS, UTC),
            "more": max(0, len(summary[name]) - MOST_ROWS),
        }
        for name in names
    ]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("report.html").read_text())
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return template.render(
        title=title,
        made=made,
        summary=summary,
        sections=sections,
        plotly=Markup(get_plotlyjs()),
        headline=headline(summary, UTC),
    )
