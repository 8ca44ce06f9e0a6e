"""DeleteTopics: delete topics (broker.md 6.4)."""

from __future__ import annotations

from messages import errors
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, Binding
from messages.vocabulary import Message, message


@message
class DeleteTopicsRequest(Message):
    """A client's request to the controller to delete topics (API key 20)."""

    version: int
    topics: tuple[str, ...]
    timeout_ms: int


@message
class DeletedTopic(Message):
    """The result of deleting one topic."""

    name: str
    error_code: int


@message
class DeleteTopicsResponse(Message):
    """The response to DeleteTopics."""

    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0


API = Api(
    key=20,
    versions=(0, 4),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    answerer=CONTROLLER,
    codes="NONE NOT_CONTROLLER UNKNOWN_TOPIC_OR_PARTITION TOPIC_DELETION_DISABLED INVALID_REQUEST REQUEST_TIMED_OUT",
    sample=lambda about: DeleteTopicsRequest(4, ("absent",), TIMEOUT_MS),
    odd="version=2",
    refuse=lambda request, code: DeleteTopicsResponse(tuple([DeletedTopic(name, code) for name in request.topics])),
    bindings={
        DeleteTopicsRequest: Binding(renamed={"topics": ("topic_names",)}),
        DeleteTopicsResponse: Binding(renamed={"topics": ("responses",)}),
    },
    elsewhere=errors.NOT_CONTROLLER,
)
