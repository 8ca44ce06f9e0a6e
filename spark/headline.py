"""Write the sentences at the top of a summary, in order of time."""

from __future__ import annotations

from datetime import tzinfo
from types import SimpleNamespace

from spark.formatting import shown
from spark.results import Summary
from spark.section_names import COMPARED

MOST_CHANGES = 5
"""Maximum number of differences in the headline."""
_SEEN = {"BrokerChange": ", by a BrokerChange event", "Elected": ", when it was elected"}


def headline(summary: Summary, zone: tzinfo | None = None) -> list[str]:
    """Return the sentences; times are in `zone`, by default local."""
    when = shown("at", zone)
    said = [(row.died_at, _gone(row, str(when(row.died_at)))) for row in summary["episodes"]]
    said += [
        (row.at, f"Node {row.node} was elected controller at {when(row.at)}, with epoch {row.epoch}.")
        for row in summary["elections"]
    ]
    words = [sentence for _, sentence in sorted(said)]
    return words + _unavailable(summary) + _changed(summary)


def _gone(row: SimpleNamespace, died_at: str) -> str:
    who = f"Broker {row.broker}" + (", the controller," if row.was_controller else "")
    said = (
        f"{who} was {row.ending or 'gone'} at {died_at}; controller {row.seen_by} detected it after {row.seen_s:.3f} s"
    )
    said += _SEEN.get(row.after, "") + "."
    if row.partitions:
        said += f" {_partitions(row.partitions)} lost their leader"
        said += "" if row.led_again_s is None else f"; the last new leader was elected after {row.led_again_s:.3f} s"
        said += f"; {row.still_leaderless} had no leader at the end." if row.still_leaderless else "."
    return said


def _unavailable(summary: Summary) -> list[str]:
    without = summary["unavailable"]
    if without:
        seconds = sum(row.seconds for row in without)
        return [f"{_partitions(len(without))} had no leader for {seconds:.3f} partition-seconds in total."]
    asked = {"episodes", "unavailable"} <= summary.answers.keys() and len(summary["runs"])
    return (
        ["No broker failed or stopped, and all partitions kept a leader."]
        if asked and not len(summary["episodes"])
        else []
    )


def _changed(summary: Summary) -> list[str]:
    changed = [row for row in summary[COMPARED] if row.verdict]
    if summary[COMPARED] and not changed:
        return ["Compared with --against, no time is clearly slower or faster."]
    return [
        f"Compared with --against, {row.name} ({row.kind}) is {row.verdict}: {row.after_p50_ms:.1f} ms in the median, "
        f"was {row.before_p50_ms:.1f} ms before."
        for row in changed[:MOST_CHANGES]
    ]


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
