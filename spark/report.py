"""A summary as one page of HTML that needs nothing else: no network, light or dark, fit to print."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from spark.plots import figures
from spark.shown import heads, rows, shown
from spark.summary import COMPARED, QUESTIONS, Summary

MOST_ROWS = 200
"""So many rows of a table are on the page; the JSON has all."""
MOST_CHANGES = 5
"""So many are said in words."""
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
"""What comes first; all else follows in the order in which it is asked."""


def page(summary: Summary, title: str) -> str:
    """The page."""
    drawn = figures(summary)
    names = [name for name in dict.fromkeys((*ORDER, *summary.answers)) if len(summary[name])]
    sections = [
        {
            "name": name,
            "title": QUESTIONS[name].title,
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
        headline=_headline(summary),
    )


def _headline(summary: Summary) -> list[str]:
    """In a few sentences: what an operator asks first."""
    said = []
    for row in summary["episodes"]:
        who = f"Broker {row.broker}" + (", the controller," if row.was_controller else "")
        how = row.ending or "gone"
        died = shown("at", UTC)(row.died_at)
        words = f"{who} was {how} at {died}; controller {row.seen_by} saw it after {row.seen_s:.3f} s"
        words += f" ({row.after})." if row.after else "."
        if row.partitions:
            again = "" if row.led_again_s is None else f"; the last had one again after {row.led_again_s:.3f} s"
            left = f"; {row.left} still had none at the end" if row.left else ""
            words += f" {row.partitions} partitions lost their leader{again}{left}."
        said.append(words)
    seconds = sum(row.seconds for row in summary["unavailable"])
    if summary["unavailable"]:
        said.append(
            f"{len(summary['unavailable'])} partitions had no leader for {seconds:.3f} partition-seconds in all."
        )
    changed = [row for row in summary[COMPARED] if row.verdict]
    for row in changed[:MOST_CHANGES]:
        now, was = row.after_p50_ms, row.before_p50_ms
        said.append(
            f"Against before, {row.name} ({row.kind}) is {row.verdict}: {now:.1f} ms in the median, was {was:.1f} ms."
        )
    if summary[COMPARED] and not changed:
        said.append("Against before, nothing is clearly slower or faster.")
    if not said and len(summary["runs"]):
        said.append("No broker was gone, and every partition kept a leader.")
    return said
