"""RequestHandlerActor forwards the requests of clients, controllers and other brokers to their handlers.

Rule 1: an API's declaration (`messages.apis`) names its handler, which sends the ClientResponse directly to the
        listener. If the node's roles exclude the handler, the request is refused with the declaration's error code.
        Without such a code the connection is closed, with a reason in the log.
Rule 2: a request that needs an unsupported feature (`messages.apis.unserved`) is refused at once, with an error code
        that clients do not retry. The log names each such feature once.
Rule 3: a broker that has started knows neither brokers nor topics until the controller's first UpdateMetadata. Clients
        would take such an answer as the deletion of their topics. Requests to APIs with `awaits_metadata` therefore
        wait for the update, each at most FIRST_METADATA_SECONDS, and at most MOST_HELD at once. All other requests
        are served at once.

Kafka: `KafkaApis`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.supported_apis import api_versions
from actors.runtime import Dispatcher
from messages import apis, errors
from messages.apis import declaration
from messages.apis.api_versions import ApiVersionsRequest
from messages.broker import AwaitMetadata, ForwardedPart, MetadataReceived
from messages.client_quotas import ClientsThrottled
from messages.metrics import Count, Counts
from messages.network import (
    AccessDenied,
    AuthenticationsFailed,
    ClientPart,
    ClientRequest,
    ClientsAuthenticated,
    CloseClient,
    FaultInjected,
    Forwarded,
)
from messages.node import StartRequestHandler
from messages.releases import NEWEST

log = logging.getLogger("kafka.server.KafkaApis")

AUTHENTICATED = "kafka_server_socket_server_metrics_successful_authentication"
NOT_AUTHENTICATED = "kafka_server_socket_server_metrics_failed_authentication"

FIRST_METADATA_SECONDS = 5.0
MOST_HELD = 500
"""Maximum number of requests that wait for metadata (rule 3): Kafka's default of queued.max.requests."""

OWN = {ApiVersionsRequest: api_versions}
"""Requests that the request handler answers itself."""


class RequestHandlerActor(Dispatcher):
    """This actor forwards each request to the actor that handles it; each node has one."""

    def __init__(self) -> None:
        super().__init__()
        self._node_id = -1
        self._release = NEWEST
        self._refused: set[str] = set()
        """The features that the log has named (rule 2)."""
        self._answerers: dict[str, ActorAddress | None] = {}
        self._metrics: ActorAddress | None = None
        self._held: dict[int, Forwarded] | None = None
        """Requests that wait for the first UpdateMetadata (rule 3), by number; None if no request waits any more."""
        self._numbers = 0
        self._has_warned = False

    def receiveMsg_StartRequestHandler(self, message: StartRequestHandler, sender: ActorAddress) -> None:
        """Set the handlers; a handler that the node's roles exclude is None."""
        self._node_id, self._metrics = message.settings.node_id, message.metrics
        self._release = message.settings.api_versions_max
        self._answerers = {
            declaration.METADATA_CACHE: message.metadata_cache,
            declaration.REPLICA_MANAGER: message.replica_manager,
            declaration.CONTROLLER: message.controller,
            declaration.PARTITIONS: message.partition_requests,
            declaration.CONFIGS: message.configs,
            declaration.GROUPS: message.group_coordinator,
            declaration.COORDINATOR_FINDER: message.coordinator_finder,
            declaration.TRANSACTIONS: message.transaction_coordinator,
            declaration.AUTHORIZER: message.authorizer,
            declaration.DELEGATION_TOKENS: message.delegation_tokens,
        }
        self._held = None if message.replica_manager is None else {}
        if self._held is not None:
            self.send(message.metadata_cache, AwaitMetadata())

    def receiveMsg_ClientRequest(self, message: ClientRequest, sender: ActorAddress) -> None:
        """Forward one request to its handler, or hold it until this broker has metadata (rule 3)."""
        held, api = self._held, apis.API_BY_REQUEST[type(message.request)]
        if held is not None and api.awaits_metadata and len(held) < MOST_HELD:
            self._numbers += 1
            held[self._numbers] = Forwarded(sender, message)
            self.set_timer(str(self._numbers), FIRST_METADATA_SECONDS, self._numbers)
        else:
            self._forward(message, sender)

    def receiveMsg_MetadataReceived(self, message: MetadataReceived, sender: ActorAddress) -> None:
        """Forward all held requests; from now on, none waits."""
        held, self._held = self._held or {}, None
        for number, waiting in held.items():
            self.cancel_timer(str(number))
            self._forward(waiting.request, waiting.client)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Forward a request that has waited too long for metadata."""
        waiting = self._held.pop(message.payload, None) if self._held is not None else None
        if waiting is None:
            return
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "[Broker id=%d] This broker has no metadata: the controller has sent no UpdateMetadata since its start."
                " Requests of clients are answered without it after %g s.",
                *(self._node_id, FIRST_METADATA_SECONDS),
            )
        self._forward(waiting.request, waiting.client)

    def _forward(self, message: ClientRequest, sender: ActorAddress) -> None:
        request = message.request
        api = apis.API_BY_REQUEST[type(request)]
        answerer = self._answerers.get(api.answerer)
        if answerer is not None:
            self.send(answerer, Forwarded(sender, message))
        elif type(request) in OWN:
            self.send(sender, message.reply(OWN[type(request)](request, self._release, message.client_id)))
        elif api.elsewhere != errors.NONE:
            self._note(api, message)
            self.send(sender, message.reply(api.refusal(request, api.elsewhere)))
        else:
            self.send(sender, CloseClient(message.connection, f"not served here: {api.name} v{request.version}"))

    def receiveMsg_ClientsAuthenticated(self, message: ClientsAuthenticated, sender: ActorAddress) -> None:
        """Count successful authentications."""
        self._count_by_listener(AUTHENTICATED, [(each.listener, each.times) for each in message.authentications])

    def receiveMsg_AuthenticationsFailed(self, message: AuthenticationsFailed, sender: ActorAddress) -> None:
        """Count failed authentications."""
        self._count_by_listener(NOT_AUTHENTICATED, [(each.listener, each.number) for each in message.failures])

    def _count_by_listener(self, metric: str, numbers: Sequence[tuple[str, int]]) -> None:
        """Count how often something has happened on each listener."""
        counts = Counter[str]()
        for listener, number in numbers:
            counts[listener] += number
        if self._metrics is not None:
            found = [Count(metric, number, (("listener", listener),)) for listener, number in counts.items()]
            self.send(self._metrics, Counts(tuple(found)))

    def receiveMsg_AccessDenied(self, message: AccessDenied, sender: ActorAddress) -> None:
        """Record what the authorizer has refused; the listener has logged it."""

    def receiveMsg_ClientsThrottled(self, message: ClientsThrottled, sender: ActorAddress) -> None:
        """Record which clients have exceeded a quota."""

    def receiveMsg_FaultInjected(self, message: FaultInjected, sender: ActorAddress) -> None:
        """Log an injected fault."""
        log.info(
            "[Broker id=%d] Injecting fault '%s' (value %g) into the response to the %s request with "
            "correlation id %d of client %.100r",
            *(self._node_id, message.fault, message.value, message.api, message.correlation_id, message.client_id),
        )

    def receiveMsg_ClientPart(self, message: ClientPart, sender: ActorAddress) -> None:
        """Forward a part of a large request to the replica manager; only controller requests have parts."""
        replica_manager = self._answerers[declaration.REPLICA_MANAGER]
        if replica_manager is not None:
            self.send(replica_manager, ForwardedPart(message.connection, message.part))

    def _note(self, api: apis.Api, message: ClientRequest) -> None:
        """Log the first request that needs the API's unsupported feature, if it has one."""
        if api.feature is not None and api.feature not in self._refused:
            self._refused.add(api.feature)
            log.warning(
                "[Broker id=%d] Refusing %s from client %.100r at %s with error code %d: this broker does not"
                " serve %s. Further refusals of requests for %s are not logged.",
                *(self._node_id, api.name, message.client_id, message.client_host, api.elsewhere),
                *(api.feature, api.feature),
            )
