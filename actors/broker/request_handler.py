"""RequestHandlerActor: the door through which every request of a client, a controller or another broker comes in.

Rule: the table says who answers what. It forwards the request, and whoever answers sends the ClientResponse straight to
the listener. What nobody here answers closes the connection, with a reason in the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from thespian.actors import ActorAddress

from actors.runtime import Dispatcher
from messages.broker import Forwarded, ForwardedPart
from messages.errors import INVALID_REQUEST, NONE, STALE_CONTROLLER_EPOCH, UNSUPPORTED_VERSION
from messages.network import ClientPart, ClientRequest, ClientResponse, CloseClient
from messages.node import StartRequestHandler
from messages.requests import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    MetadataRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from messages.vocabulary import Message
from messages.wire import ADVERTISED

NAMED_SINCE = 3
"""The ApiVersions version from which clients say what software they are."""

_API_VERSIONS = next(api for api in ADVERTISED if api.api_key == 18)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def api_versions(request: ApiVersionsRequest) -> ApiVersionsResponse:
    """What clients may ask. A version that we do not know is told which ones we do (broker.md 6.2, row 18)."""
    if request.version > _API_VERSIONS.max_version or request.version < _API_VERSIONS.min_version:
        return ApiVersionsResponse(UNSUPPORTED_VERSION, (_API_VERSIONS,))
    software = (request.client_software_name, request.client_software_version)
    if request.version >= NAMED_SINCE and not all(_SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(INVALID_REQUEST, ())
    return ApiVersionsResponse(NONE, ADVERTISED)


class RequestHandlerActor(Dispatcher):
    """Routes requests by their type; see the module's rule."""

    def __init__(self) -> None:
        super().__init__()
        self._replica_manager: ActorAddress | None = None
        self._routes: dict[type, Callable[[ClientRequest, ActorAddress], None]] = {}

    def receiveMsg_StartRequestHandler(self, message: StartRequestHandler, sender: ActorAddress) -> None:
        """Draw up the table of who answers what."""
        self._replica_manager = message.replica_manager
        obey = self._to(message.replica_manager)
        relieve = self._answer_controller_moved if message.controller is None else self._to(message.controller)
        self._routes = {
            ApiVersionsRequest: self._answer_api_versions,
            MetadataRequest: self._to(message.metadata_cache),
            LeaderAndIsrRequest: obey,
            StopReplicaRequest: obey,
            UpdateMetadataRequest: obey,
            ControlledShutdownRequest: relieve,
        }

    def receiveMsg_ClientRequest(self, message: ClientRequest, sender: ActorAddress) -> None:
        """One request: hand it to whom the table names."""
        self._routes.get(type(message.request), self._refuse)(message, sender)

    def receiveMsg_ClientPart(self, message: ClientPart, sender: ActorAddress) -> None:
        """What goes ahead of a request: only the controller's are that large, and the replica manager obeys those."""
        if self._replica_manager is not None:
            self.send(self._replica_manager, ForwardedPart(message.connection, message.part))

    def _to(self, actor: ActorAddress | None) -> Callable[[ClientRequest, ActorAddress], None]:
        """The route to an actor; refusal where the node's roles leave it out."""
        if actor is None:
            return self._refuse
        return lambda request, client: self.send(actor, Forwarded(client, request))

    def _answer_api_versions(self, request: ClientRequest, client: ActorAddress) -> None:
        self._respond(request, client, api_versions(request.request))

    def _answer_controller_moved(self, request: ClientRequest, client: ActorAddress) -> None:
        """A broker wants to stop and asks here, where no controller runs."""
        self._respond(request, client, ControlledShutdownResponse(STALE_CONTROLLER_EPOCH))

    def _refuse(self, request: ClientRequest, client: ActorAddress) -> None:
        reason = f"nobody here answers {type(request.request).__name__} v{request.request.version}"
        self.send(client, CloseClient(request.connection, reason))

    def _respond(self, request: ClientRequest, client: ActorAddress, response: Message) -> None:
        self.send(client, ClientResponse(request.connection, request.correlation_id, response))
