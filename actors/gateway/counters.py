"""The counter metrics of a node, per label value (such as a topic) and in total.

The classes of prometheus_client are not enough: a counter of that library has only one set of label names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.gateway.metric_table import help_of
from messages.metrics import Count

SUFFIX = "_total"

Labels = tuple[tuple[str, str], ...]


class Counters(Collector):
    """A collector of counters for prometheus_client; the event loop increments them, and the HTTP thread reads them."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, int]] = {}

    def count(self, count: Count) -> None:
        """Add `count` to its counter."""
        name, by, labels = count
        values = self._counters.get(name)
        if values is None:
            values = {}
            self._counters = {**self._counters, name: values}
        values[labels] = values.get(labels, 0) + by

    def drop(self, names: Collection[str], labels: Collection[Labels]) -> None:
        """Drop the values of these counters under these labels."""
        for name in names:
            values = self._counters.get(name, {})
            for each in labels:
                values.pop(each, None)

    def collect(self) -> Iterator[Metric]:
        """Yield a metric for each counter, with a sample for each set of labels."""
        for name, values in self._counters.items():
            family = Metric(name.removesuffix(SUFFIX), help_of(name), "counter")
            for labels, value in list(values.items()):
                family.add_sample(name, dict(labels), value)
            yield family
