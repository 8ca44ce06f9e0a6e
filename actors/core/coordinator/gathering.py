"""Split a request about several groups into one request for each group, and merge the responses (broker.md 6.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from actors.core.coordinator.request_checks import NOBODYS_ENTRY, REFUSED_ENTRY
from messages.apis import API_BY_REQUEST
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.groups import DeleteGroup, DescribeGroup
from messages.vocabulary import AnyMessage, Message

OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""All operations that a client may perform without authorization: read, delete, describe."""

QUESTIONS: Mapping[type, Callable[[], Message]] = {
    DescribeGroupsRequest: DescribeGroup,
    DeleteGroupsRequest: DeleteGroup,
}
"""Request about several groups -> question that each group receives."""


class PendingGroupsRequest:
    """A pending request about several groups, with the responses received so far."""

    def __init__(self, request: AnyMessage) -> None:
        self._request = request
        deletes = isinstance(request, DeleteGroupsRequest)
        self.groups: tuple[str, ...] = tuple(dict.fromkeys(request.groups)) if deletes else request.groups
        """The groups of the response. A group that a DeleteGroups names twice is deleted once."""
        self._results: list[AnyMessage | None] = [None] * len(self.groups)
        self._outstanding = len(self.groups)

    @property
    def question(self) -> Message:
        """The message that is sent to each group."""
        return QUESTIONS[type(self._request)]()

    @property
    def response(self) -> AnyMessage:
        """The merged response; None until all groups have answered."""
        if self._outstanding:
            return None
        return API_BY_REQUEST[type(self._request)].response(tuple(self._results))

    def answered(self, place: int, result: AnyMessage) -> None:
        """Store the result of a group; `place` is the group's index in the request."""
        if isinstance(self._request, DescribeGroupsRequest) and self._request.include_authorized_operations:
            result = attrs.evolve(result, authorized_operations=OPERATIONS)
        self._results[place] = result
        self._outstanding -= 1

    def refused(self, place: int, code: int) -> None:
        """Store an error as the result of a group that cannot be reached or does not respond."""
        self.answered(place, REFUSED_ENTRY[type(self._request)](self.groups[place], code))

    def nobodys(self, place: int) -> None:
        """Store the result for a group that does not exist."""
        self.answered(place, NOBODYS_ENTRY[type(self._request)](self.groups[place]))
