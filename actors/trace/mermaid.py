"""Draw a delivery and its effects as a Mermaid sequence diagram."""

from __future__ import annotations

import re
from collections.abc import Iterable

from actors.trace.delivery_text import clock, title
from actors.trace.links import DeliveryId, Link
from actors.trace.reader import Trace, TraceDelivery
from messages.trace.errors import TraceError

MOST = 300
"""Maximum number of messages in a diagram; a browser draws no more in reasonable time."""
_UNSAFE = re.compile(r"[#;<>\n\r\"]")


def sequence_diagram(trace: Trace, deliveries: Iterable[tuple[TraceDelivery, Link | None]], most: int = MOST) -> str:
    """Return the diagram of these deliveries.

    Args:
        trace: The trace that they belong to.
        deliveries: In the order of time, each with the link to its cause.
        most: Maximum number of messages.

    Raises:
        TraceError: There are more deliveries than `most`.
    """
    drawing = _Drawing(len({run.node for run in trace.runs}) > 1)
    places = {id(run): place for place, run in enumerate(trace.runs)}
    for count, (delivery, link) in enumerate(deliveries):
        if count >= most:
            raise TraceError(
                f"the delivery led to more than {most} messages, too many for a diagram. Choose a later delivery with "
                "--delivery, or use --perfetto"
            )
        drawing.draw(DeliveryId(places[id(delivery.run)], delivery.seq), delivery, link)
    return "\n".join(["sequenceDiagram", *drawing.participants, *drawing.messages]) + "\n"


class _Drawing:
    """The lines of a diagram."""

    def __init__(self, many: bool) -> None:
        self.participants: list[str] = []
        self.messages: list[str] = []
        self._many = many
        self._names: dict[tuple[int, str], str] = {}
        self._receivers: dict[DeliveryId, str] = {}
        self._at = 0.0

    def draw(self, place: DeliveryId, delivery: TraceDelivery, link: Link | None) -> None:
        """Draw a message. The arrow of a message from another node starts at the external endpoint that sent it."""
        to = self._receivers[place] = self._name(delivery.node, delivery.receiver)
        sender = self._receivers.get(link.cause) if link is not None and link.crossed else None
        if sender is None:
            sender = self._name(delivery.node, delivery.sender) if delivery.sender else to
        if delivery.at != self._at:
            self._at = delivery.at
            self.messages.append(f"    Note over {to}: {clock(delivery.at)}")
        self.messages.append(f"    {sender}-){to}: {delivery.seq} {safe(title(delivery.record))}")

    def _name(self, node: int, address: str) -> str:
        name = self._names.get((node, address))
        if name is None:
            name = self._names[node, address] = f"p{len(self._names) + 1}"
            where = f" (node {node})" if self._many else ""
            self.participants.append(f"    participant {name} as {safe(address.removeprefix('outside:'))}{where}")
        return name


def safe(text: str) -> str:
    """Return the text without characters that end a Mermaid statement."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", text)
