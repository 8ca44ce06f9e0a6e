"""Write the sentences at the top of a summary, in order of time."""

from __future__ import annotations

from datetime import tzinfo

from spark.formatting import formatter
from spark.incidents import EXAMINED, find_incidents
from spark.results import Summary
from spark.section_names import COMPARED

MOST_CHANGES = 5
"""Maximum number of differences in the headline."""


def headline(summary: Summary, zone: tzinfo | None = None) -> list[str]:
    """Return the sentences: elections, incidents, the state at the end. Times are in `zone`, by default local.

    Incidents and the state at the end need all sections in EXAMINED.
    """
    when = formatter("at", zone)
    sentences = [
        (row.at, f"Node {row.node} was elected controller at {when(row.at)}, with epoch {row.epoch}.")
        for row in summary["elections"]
    ]
    end = []
    if set(EXAMINED) <= summary.answers.keys() and len(summary["runs"]):
        found_incidents = find_incidents(summary, zone)
        sentences += [
            (each.at, f"{each.what} at {when(each.at)}. {' '.join(answer for _, answer in each.facts)}")
            for each in found_incidents.incidents
        ]
        end = [found_incidents.status.text]
    return [sentence for _, sentence in sorted(sentences)] + end + comparison_sentences(summary)


def comparison_sentences(summary: Summary) -> list[str]:
    """Return the sentences about the comparison with another folder."""
    rows = [row for row in summary[COMPARED] if row.verdict]
    if summary[COMPARED] and not rows:
        return ["Compared with --against, no time is clearly slower or faster."]
    return [
        f"Compared with --against, {row.name} ({row.kind}) is {row.verdict}: {row.after_p50_ms:.1f} ms in the median, "
        f"was {row.before_p50_ms:.1f} ms before."
        for row in rows[:MOST_CHANGES]
    ]
