"""Find in traces the state of a transactional id, how its transactions ended, and which requests were rejected."""

from __future__ import annotations

from actors.explain.causes import cause_of
from actors.explain.explanations import LAST, Answer, Sentence
from actors.explain.step_texts import text_of
from messages import errors
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import TransactionDecision, TransactionRequest
from messages.facts.trace_facts import TraceFacts

NAMED = 5
"""Maximum number of partitions in a line."""
RETRIED = (
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_COORDINATOR,
    errors.CONCURRENT_TRANSACTIONS,
)
"""Error codes that clients retry without reporting an error."""


def state(facts: TraceFacts, transactional_id: str) -> Answer:
    """Explain the current state of a transactional id, and since when it has had this state."""
    requests = [each for each in _requests(facts, transactional_id) if each.code == errors.NONE]
    decisions = _decisions(facts, transactional_id)
    if not requests and not decisions:
        return [Sentence(f"the trace has no successful request of transactional id {transactional_id}")]
    later = [each for each in requests if not decisions or each.place > decisions[-1].place]
    begun = [each for each in later if each.api == "InitProducerId"]
    if begun:
        later = [each for each in later if each.place > begun[-1].place]
    added = [each for each in later if each.api in ("AddPartitionsToTxn", "AddOffsetsToTxn")]
    if added:
        return _ongoing(added)
    if begun:
        now = begun[-1]
        return [Sentence(f"Empty: InitProducerId returned {_producer(now)}", now.place)]
    if decisions:
        return _explain_decision(facts, decisions[-1])
    return [Sentence("the trace begins after its last state change")]


def _ongoing(added: list[TransactionRequest]) -> Answer:
    """Return the sentences about an open transaction and what was added to it."""
    partitions = list(dict.fromkeys(each for request in added for each in request.partitions))
    groups = list(dict.fromkeys(request.group for request in added if request.group))
    lines = [Sentence(f"Ongoing since the first {added[0].api} of {_producer(added[0])}", added[0].place)]
    if partitions:
        lines.append(Sentence(f"it contains {_names_text(partitions)}"))
    if groups:
        lines.append(Sentence(f"it contains offsets of {', '.join(groups[:NAMED])}"))
    return lines


def _explain_decision(facts: TraceFacts, decision: TransactionDecision) -> Answer:
    """Return the sentences about a decided transaction: its state, and which partitions have no marker."""
    producer = decision.transactional_id, decision.producer_id, decision.producer_epoch
    marked = [
        each
        for each in facts.select(declarations.TransactionMarked)
        if each[1:4] == producer and each.place > decision.place
    ]
    done = {partition for each in marked for partition in each.partitions}
    left = [each for each in decision.partitions if each not in done]
    word = "Commit" if decision.commit else "Abort"
    if not left:
        return [
            Sentence(f"Complete{word}: all {len(decision.partitions)} partitions have the marker", marked[-1].place)
        ]
    return [
        Sentence(f"Prepare{word} since the coordinator began to send markers", decision.place),
        Sentence(f"{len(left)} of {len(decision.partitions)} partitions have no marker: {_names_text(left)}"),
    ]


def ends(facts: TraceFacts, transactional_id: str) -> Answer:
    """Explain how the last transactions ended."""
    return [Sentence(_end(each), each.place) for each in _decisions(facts, transactional_id)[-LAST:]]


def _end(decision: TransactionDecision) -> str:
    """Return the sentence for the end of a transaction."""
    ended = f"{'committed' if decision.commit else 'aborted'} with {_producer(decision)}"
    if decision.loaded:
        return f"{ended}: an earlier coordinator decided it, and the new coordinator sends the markers again"
    if decision.api == "EndTxn":
        return f"{ended}: its producer sent EndTxn"
    if decision.api == "InitProducerId":
        return f"{ended}: InitProducerId of a new producer fenced the old producer"
    return f"{ended}: the transaction timeout was over"


def why_rejected(facts: TraceFacts, transactional_id: str) -> Answer:
    """Explain which requests were rejected."""
    lines = []
    for each in _requests(facts, transactional_id):
        if each.code != errors.NONE and each.code not in RETRIED:
            text = f"{each.api} of {_producer(each)} was rejected: {name_of(each.code)}"
            lines.append(Sentence(text, each.place))
            raised = cause_of(facts, each)
            lines += [] if raised is None else [Sentence(f"a newer epoch was in use: {text_of(raised)}", raised.place)]
    return lines[-2 * LAST :]


def _requests(facts: TraceFacts, transactional_id: str) -> list[TransactionRequest]:
    return facts.select(declarations.TransactionRequest, transactional_id=transactional_id)


def _decisions(facts: TraceFacts, transactional_id: str) -> list[TransactionDecision]:
    return facts.select(declarations.TransactionDecision, transactional_id=transactional_id)


def _producer(of: TransactionRequest | TransactionDecision) -> str:
    return f"producer id {of.producer_id}, epoch {of.producer_epoch}"


def _names_text(partitions: list[TopicPartition]) -> str:
    more = len(partitions) - NAMED
    return ", ".join(map(str, partitions[:NAMED])) + (f" and {more} others" if more > 0 else "")
