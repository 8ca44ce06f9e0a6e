"""DeleteTopics: delete topics (broker.md 6.4)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, NAMED_OR_ID, TIMEOUT_MS, Api, Binding, on_topics
from messages.cluster import NO_ID
from messages.vocabulary import Message, message


@message
class DeletableTopic(Message):
    """A topic to delete, which has either a name or a topic id."""

    name: str | None
    topic_id: str = NO_ID


@message
class DeleteTopicsRequest(Message):
    """A client's request to the controller to delete topics (API key 20).

    From version 6 on, `named_or_ids` replaces `topics`.
    """

    version: int
    topics: tuple[str, ...]
    timeout_ms: int
    named_or_ids: tuple[DeletableTopic, ...] = ()


@message
class DeletedTopic(Message):
    """The result of deleting one topic; the name of a topic that is unknown by its id is empty."""

    name: str
    error_code: int
    topic_id: str = NO_ID


@message
class DeleteTopicsResponse(Message):
    """The response to DeleteTopics."""

    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0


def deletable_topics(request: DeleteTopicsRequest) -> tuple[DeletableTopic, ...]:
    """Return the topics to delete, in any version."""
    return request.named_or_ids or tuple([DeletableTopic(name) for name in request.topics])


def _names(topic_names: tuple[str, ...] = ()) -> tuple[str, ...]:
    return topic_names


def _refuse(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    topics = [DeletedTopic(each.name or "", code, each.topic_id) for each in deletable_topics(request)]
    return DeleteTopicsResponse(tuple(topics))


API = Api(
    key=20,
    versions=(0, 6),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    answerer=CONTROLLER,
    access=(
        on_topics(Operation.DESCRIBE, "topics", "topics"),
        on_topics(Operation.DESCRIBE, "named_or_ids", "topics"),
        on_topics(Operation.DELETE, "topics", "topics"),
        on_topics(Operation.DELETE, "named_or_ids", "topics"),
    ),
    codes="NONE NOT_CONTROLLER UNKNOWN_TOPIC_OR_PARTITION TOPIC_DELETION_DISABLED INVALID_REQUEST REQUEST_TIMED_OUT"
    " UNKNOWN_TOPIC_ID",
    sample=lambda about: DeleteTopicsRequest(4, ("absent",), TIMEOUT_MS),
    odd="version=2",
    refuse=_refuse,
    bindings={
        DeleteTopicsRequest: Binding(
            renamed={"topics": ("topic_names",), "named_or_ids": ("topics",)}, read={"topics": _names}
        ),
        DeletedTopic: NAMED_OR_ID,
        DeleteTopicsResponse: Binding(renamed={"topics": ("responses",)}),
    },
    elsewhere=errors.NOT_CONTROLLER,
    controller_first=True,
)
