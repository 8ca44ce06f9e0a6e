"""Send client requests at random times while a simulated cluster runs; some are valid, others must be rejected.

Rule 1: a row of `REQUESTS` makes one or more requests about a partition or a group. Every node receives them: the
        leader, followers, the controller, and nodes that are not concerned.
Rule 2: a request does not violate an invariant. It may read, describe, append records, elect leaders, reassign
        replicas, and change groups and transactional ids. It deletes only topics that its own row creates. Changes of
        config overrides are only validated. If a row deletes a simulated group, the invariants no longer require that
        commits of this group exist.
Rule 3: a request uses the state of ZooKeeper at the time of sending. A row returns None if it cannot make a request
        now. If a row returns a tuple, the requests in the tuple reach a stalled node together. The node handles them
        one after another, without other messages in between. If a row returns a list, its elements are sent one second
        apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from actors.simulation.admin_client_requests import ADMIN
from actors.simulation.data_client_requests import DATA, fetch
from actors.simulation.group_client_requests import GROUPS, STUCK_GROUP, to_stuck_group
from actors.simulation.request_target import RequestTarget, Step, Wanted
from actors.simulation.simulated_cluster import Cluster
from actors.simulation.stale_requests import STALE
from actors.simulation.transaction_client_requests import STRAY_ID, TRANSACTIONS, verification
from messages import errors
from messages.apis.end_txn import EndTxnRequest
from messages.apis.fetch import FetchResponse
from messages.apis.init_producer_id import InitProducerIdResponse
from messages.apis.join_group import JoinGroupResponse
from messages.vocabulary import AnyMessage

GAP = 1.0
"""Seconds between the elements of a list (rule 3)."""

STALL = 0.1
"""Seconds for which a tuple of requests stalls its node."""

SPACING = 0.0015
"""Seconds between the requests of a tuple: more than the jitter of the network, so that they keep their order."""

OF_COORDINATORS = (
    *("join-stranger", "sync-stranger", "leave-stranger", "commit-stranger", "fetch-offsets", "forget-subscribed"),
    *("describe-groups", "list-groups", "beat-stranger", "fetch-one-offset", "own-group", "delete-of-unknown"),
    *("commit-of-unknown", "init-stray", "add-unknown", "add-offsets-unknown", "end-unknown"),
    *("describe-transactions", "list-transactions", "commit-of-stranger", "leave-as-member", "sync-as-member"),
    "mark-offsets",
)
"""Requests that each coordinator refuses while it loads its groups."""

OF_GROUPS = (
    *("join-as-member", "beat-as-member", "beat-of-old", "sync-as-member", "sync-of-old", "commit-as-member"),
    *("commit-of-stranger", "leave-as-member", "delete-busy-group", "forget-subscribed", "join-stranger"),
    *("join-other-protocol", "join-as-well", "join-static", "beat-fenced", "sync-fenced", "commit-fenced"),
    *("commit-in-transaction-of-member", "commit-in-transaction-of-old", "commit-in-transaction-fenced"),
    *("join-fenced", "leave-fenced", "join-at-once", "forget-passing", "delete-own-group", "sync-other-protocol"),
)
"""Requests whose responses depend on the state of a group."""

REQUESTS: Mapping[str, Wanted] = {**DATA, **ADMIN, **GROUPS, **TRANSACTIONS, **STALE}


def send(
    cluster: Cluster, request: str, topic: str, number: int, group: str, nodes: Iterable[int] | None = None
) -> None:
    """Send the request of this name to these nodes, by default to all (rule 1), and ignore the responses."""
    for node in cluster.machines if nodes is None else nodes:
        about = RequestTarget(cluster, node, topic, number, group)
        _send_steps(about, REQUESTS[request](about), _send_more)


GoOn = Callable[[RequestTarget, AnyMessage, AnyMessage | None], None]


def _send_steps(about: RequestTarget, made: Step | list[Step] | None, go_on: GoOn) -> None:
    """Send the requests of a row (rule 3); `go_on` is called with each request and its response."""
    steps = made if isinstance(made, list) else [] if made is None else [made]
    for place, step in enumerate(steps):
        if place:
            about.cluster.scheduler.call_later(place * GAP, partial(_send_step, about, step, go_on))
        else:
            _send_step(about, step, go_on)


def _send_step(about: RequestTarget, step: Step, go_on: GoOn) -> None:
    """Send a request, or stall the node and send it several requests."""
    cluster, requests = about.cluster, step if isinstance(step, tuple) else (step,)
    if isinstance(step, tuple):
        cluster.stall(about.node, STALL)
    for place, request in enumerate(requests):
        ask = partial(cluster.ask, about.node, request, partial(go_on, about, request))
        if place:
            cluster.scheduler.call_later(place * SPACING, ask)
        else:
            ask()


def _end(about: RequestTarget, request: AnyMessage, response: AnyMessage | None) -> None:
    """Ignore the response."""


def _send_more(about: RequestTarget, request: AnyMessage, response: AnyMessage | None) -> None:
    """Send further requests after some responses.

    They continue a fetch session with a wrong epoch, end a transaction that has not begun, or concern a group that
    waits for its leader's assignment.
    """
    if isinstance(response, InitProducerIdResponse) and response.error_code == errors.NONE:
        pair = response.producer_id, response.producer_epoch
        for each in (verification(about, *pair), EndTxnRequest(1, STRAY_ID, *pair, True)):
            _send_steps(about, each, _end)
    if isinstance(response, FetchResponse) and response.session_id:
        _send_steps(about, fetch(session=(response.session_id, 9))(about), _end)
    if (
        isinstance(response, JoinGroupResponse)
        and response.error_code == errors.NONE
        and request.group_id == STUCK_GROUP
    ):
        _send_steps(about, to_stuck_group(about, response.member_id, response.generation_id), _end)
