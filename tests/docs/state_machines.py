"""Write docs/reference/state-machines.md from the tables of the state machines; `make docs` runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from actors.core.controller import partition_state_machine, replica_state_machine
from actors.core.controller.states import Table
from actors.core.coordinator import group_states
from actors.core.transaction import transaction_states
from actors.gateway import connection
from actors.node import node_states
from messages.error_names import NAMES

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "state-machines.md"

HEAD = """\
# State machines

`make docs` generates this page from the tables that the code executes; a test checks that it is up
to date.

The controller has a state machine for partitions
(`actors/core/controller/partition_state_machine.py`) and one for replicas
(`actors/core/controller/replica_state_machine.py`). A row of a table names the function that makes
the change of state. A change without a row in its table is an `IllegalTransition`
(`actors/core/illegal_transition.py`), which names the subject, both states, and the reason. The
controller logs the IllegalTransition with the last changes of that subject, and still changes the
other partitions or replicas of the call. The coordinators raise it as an exception.
"""


GROUPS = """\
## Consumer groups

The tables are in `actors/core/coordinator/group_states.py`. A cell is the error code or the action
for a request to a group in the state of the column, if the request names the right coordinator,
member and generation.

```mermaid
stateDiagram-v2"""

TRANSACTIONS = """\
## Transactional ids

The tables are in `actors/core/transaction/transaction_states.py`. A cell is the error code or the
action for a request to an id in the state of the column, if the request has the current producer id
and epoch, and if no change of state is pending.

```mermaid
stateDiagram-v2"""

NODES = """\
## Nodes

The tables are in `actors/node/node_states.py`. `BackingOff` is the time until the next request for
a controlled shutdown. While a request for a controlled shutdown is pending, all other events wait
until it ends.

```mermaid
stateDiagram-v2"""

CONNECTIONS = """\
## Client connections

The table is in `actors/gateway/connection.py`. The next request of a connection begins in
state Ready, unless the connection is held. A connection is held while:

"""


def document() -> str:
    """Return the whole page."""
    return "\n".join(
        [
            HEAD,
            *_section("Partitions", partition_state_machine.TABLE),
            *_section("Replicas", replica_state_machine.TABLE),
            *_requests(GROUPS, "request", group_states.PREVIOUS, group_states.TABLES),
            *_requests(TRANSACTIONS, "request", transaction_states.PREVIOUS, transaction_states.TABLES),
            *_requests(NODES, "event", node_states.PREVIOUS, {e.__name__: t for e, t in node_states.TABLES.items()}),
            *_connections(),
        ]
    )


def _section(title: str, table: Table) -> Iterator[str]:
    yield f"## {title}\n"
    yield "```mermaid"
    yield "stateDiagram-v2"
    for row in table.rows:
        for previous in row.previous:
            yield f"    {previous.value} --> {row.target.value}"
    yield "```\n"
    yield "| to | from | action | requests |"
    yield "| --- | --- | --- | --- |"
    for row in table.rows:
        previous_names = ", ".join(previous.value for previous in row.previous)
        yield f"| {row.target.value} | {previous_names} | {row.action} | {row.requests} |"
    yield ""


def _connections() -> Iterator[str]:
    yield CONNECTIONS + "\n".join(f"- {hold.value};" for hold in connection.Hold)[:-1] + ".\n"
    yield "```mermaid"
    yield "stateDiagram-v2"
    for state, previous in connection.PREVIOUS.items():
        yield from (f"    {each.value} --> {state.value}" for each in previous if each is not state)
    yield "```\n"


def _requests(
    intro: str, what: str, previous_of: Mapping[Any, Collection[Any]], tables: Mapping[str, Mapping[Any, Any]]
) -> Iterator[str]:
    yield intro
    for state, previous in previous_of.items():
        yield from (f"    {each.value} --> {state.value}" for each in previous if each is not state)
    yield "```\n"
    yield f"| {what} | {' | '.join(state.value for state in previous_of)} |"
    yield f"| --- |{' --- |' * len(previous_of)}"
    for request, table in tables.items():
        yield f"| {request} | {' | '.join(_cell(table[state]) for state in previous_of)} |"
    yield ""


def _cell(said: Any) -> str:
    return f"{NAMES[said]} ({said})" if isinstance(said, int) else said.value


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
