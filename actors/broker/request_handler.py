"""RequestHandlerActor: the door through which every request of a client, a controller or another broker comes in.

Rule: an API's declaration (`messages.apis`) says who answers it. The request is forwarded, and whoever answers sends
the ClientResponse straight to the listener. Where the node's roles leave him out, the declaration's code refuses, or,
where it has none, the connection is closed, with a reason in the log.
"""

from __future__ import annotations

import re

from thespian.actors import ActorAddress

from actors.runtime import Dispatcher
from messages.apis import (
    ADVERTISED,
    API_BY_REQUEST,
    CONFIGS,
    CONTROLLER,
    GROUPS,
    PARTITIONS,
    PRODUCER_IDS,
    REPLICA_MANAGER,
    REQUEST_HANDLER,
)
from messages.broker import METADATA_CACHE, Forwarded, ForwardedPart
from messages.errors import INVALID_REQUEST, NONE, UNSUPPORTED_VERSION
from messages.network import ClientPart, ClientRequest, ClientResponse, CloseClient
from messages.node import StartRequestHandler
from messages.requests import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.vocabulary import Message

NAMED_SINCE = 3
"""The ApiVersions version from which clients say what software they are."""

_API_VERSIONS = API_BY_REQUEST[ApiVersionsRequest]
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def api_versions(request: ApiVersionsRequest) -> ApiVersionsResponse:
    """What clients may ask. A version that we do not know is told which ones we do (broker.md 6.2, row 18)."""
    if request.version > _API_VERSIONS.max_version or request.version < _API_VERSIONS.min_version:
        known = ApiVersionRange(_API_VERSIONS.key, _API_VERSIONS.min_version, _API_VERSIONS.max_version)
        return ApiVersionsResponse(UNSUPPORTED_VERSION, (known,))
    software = (request.client_software_name, request.client_software_version)
    if request.version >= NAMED_SINCE and not all(_SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(INVALID_REQUEST, ())
    return ApiVersionsResponse(NONE, ADVERTISED)


OWN = {ApiVersionsRequest: api_versions}
"""What the request handler answers itself."""


class RequestHandlerActor(Dispatcher):
    """Hands each request to who answers it; see the module's rule."""

    def __init__(self) -> None:
        super().__init__()
        self._answerers: dict[str, ActorAddress | None] = {}

    def receiveMsg_StartRequestHandler(self, message: StartRequestHandler, sender: ActorAddress) -> None:
        """Learn who answers what; None where the node's roles leave him out."""
        self._answerers = {
            METADATA_CACHE: message.metadata_cache,
            REPLICA_MANAGER: message.replica_manager,
            CONTROLLER: message.controller,
            PARTITIONS: message.partition_requests,
            PRODUCER_IDS: message.producer_ids,
            CONFIGS: message.configs,
            GROUPS: message.group_coordinator,
        }

    def receiveMsg_ClientRequest(self, message: ClientRequest, sender: ActorAddress) -> None:
        """One request: hand it to who answers it."""
        request = message.request
        api = API_BY_REQUEST[type(request)]
        answerer = self._answerers.get(api.answerer)
        if answerer is not None:
            self.send(answerer, Forwarded(sender, message))
        elif api.answerer == REQUEST_HANDLER:
            self._respond(message, sender, OWN[type(request)](request))
        elif api.elsewhere != NONE:
            self._respond(message, sender, api.refusal(request, api.elsewhere))
        else:
            self.send(sender, CloseClient(message.connection, f"nobody here answers {api.name} v{request.version}"))

    def receiveMsg_ClientPart(self, message: ClientPart, sender: ActorAddress) -> None:
        """What goes ahead of a request: only the controller's are that large, and the replica manager obeys those."""
        replica_manager = self._answerers[REPLICA_MANAGER]
        if replica_manager is not None:
            self.send(replica_manager, ForwardedPart(message.connection, message.part))

    def _respond(self, request: ClientRequest, client: ActorAddress, response: Message) -> None:
        self.send(client, ClientResponse(request.connection, request.correlation_id, response))
