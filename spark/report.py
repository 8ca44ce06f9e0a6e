"""Write a summary as an HTML report, which is one file without scripts and without references to other files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from spark.drawing import Chart, short
from spark.formatting import count_text, heads, moment, rows
from spark.incidents import Incident, comparison_sentences, find_incidents
from spark.plots import figures
from spark.results import Summary
from spark.section_names import COMPARED, TITLES
from spark.timeline import Timeline

MOST_ROWS = 200
"""Maximum number of rows per table on the page; the JSON has all."""
MOST_INCIDENTS = 40
"""Maximum number of incidents on the page: the gravest."""
MARGIN = 0.15
"""Time before and after an incident in its own timeline, as a share of its duration."""
WIDEST = 0.6
"""Maximum share of the whole record that an incident's own timeline shows; a longer one adds nothing."""
SHOWN = ("unavailable",)
"""The sections that are open."""
ORDER = (
    COMPARED,
    "leaderless",
    "episodes",
    "leadership",
    "out_of_isr",
    "elections",
    "faults",
    "handled",
    "leader_elections",
    "isr_churn",
    "events",
    "runs",
)
"""The first sections of the detail; the others follow in the order of the questions."""


def page(summary: Summary, title: str, answers: Mapping[str, Any] | None = None, command: str = "") -> str:
    """Return the page; `command` shows the trace at any moment.

    `answers` are those of `kafka-actors why` in their JSON form, by what was asked.
    """
    drawn = figures(summary)
    found_incidents = find_incidents(summary)
    timeline = Timeline(summary, found_incidents.gravest_first[:MOST_INCIDENTS], UTC)
    names = [name for name in dict.fromkeys((*SHOWN, *ORDER, *summary.answers)) if len(summary[name])]
    sections = [
        {
            "name": name,
            "title": TITLES[name],
            "figure": drawn.get(name),
            "columns": heads(summary[name]),
            "rows": rows(summary[name], MOST_ROWS, UTC),
            "count": len(summary[name]),
            "counted": count_text(len(summary[name]), "row"),
        }
        for name in names
    ]
    incidents = [
        {
            "clock": moment(each.at, UTC, timeline.begin, timeline.end),
            "what": each.what,
            "facts": [(question, _with_names(answer)) for question, answer in each.facts],
            "at": repr(each.at),
            "over": each.until is not None,
            "zoomed": _chart_around(timeline, each),
        }
        for each in found_incidents.gravest_first[:MOST_INCIDENTS]
    ]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["short"] = short
    template = environment.from_string(Path(__file__).with_name("report.html").read_text("utf-8"))
    return template.render(
        title=title,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        begin=_whole(timeline.begin),
        end=_whole(timeline.end),
        summary=summary,
        status=found_incidents.status,
        incidents=incidents,
        more=len(found_incidents.incidents) - len(incidents),
        timeline=timeline.chart() if len(summary["runs"]) else None,
        changes=comparison_sentences(summary),
        shown=[each for each in sections if each["name"] in SHOWN],
        details=[each for each in sections if each["name"] not in SHOWN],
        answers=answers,
        command=command,
    )


def _with_names(answer: str) -> Markup:
    """Return the answer as HTML that never breaks a line inside the name of a partition."""
    return Markup(re.sub(r"\S+-\d+[.,:]?(?= |$)", r'<span class="name">\g<0></span>', str(escape(answer))))


def _chart_around(timeline: Timeline, incident: Incident) -> Chart | None:
    """Return the timeline around an incident; None if it would show most of the recorded time anyway."""
    end = timeline.end if incident.until is None else incident.until
    margin = max(1.0, MARGIN * (end - incident.at))
    begin, end = incident.at - margin, end + margin
    if end - begin > WIDEST * (timeline.end - timeline.begin):
        return None
    return timeline.chart(begin, end)


def _whole(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
