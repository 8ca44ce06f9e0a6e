"""DelegationTokensActor creates, renews, expires and describes delegation tokens, and keeps the listener's current.

Rule 1: tokens are known by their ids. The listener knows their secrets (`actors.gateway.vault`), and it refuses clients
        that may not have tokens.
Rule 2: a request is answered after its change is written and sent to this node's listener. The other nodes read the
        notification (`change_listener`).
Rule 3: every delegation.token.expiry.check.interval.ms the controller's node deletes the expired tokens.

Kafka: `DelegationTokenManager`, `DelegationTokenManagerZk`.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from thespian.actors import WakeupMessage

from actors.broker.change_listener import ChangeListener
from actors.core.refusal import Refused
from actors.core.security.delegation_tokens import create_token, prolong
from messages import errors, zookeeper
from messages.apis import API_BY_REQUEST, delegation_tokens
from messages.ask import Done, Question
from messages.delegation_tokens import DelegationToken, DelegationTokensChanged
from messages.flow.conversation import Flow, ask
from messages.network import Forwarded
from messages.node import NodeSettings, StartDelegationTokens
from messages.vocabulary import AnyMessage, Message

log = logging.getLogger("kafka.server.DelegationTokenManager")

EXPIRY = "check for expired tokens"


class DelegationTokensActor(ChangeListener[str, int]):
    """Each broker with the key of delegation tokens has one such actor."""

    notifications: ClassVar = (zookeeper.TokenChangeNotification,)

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings

    def flow(self, message: Message) -> Flow[None] | None:
        """Read changes, handle requests, and delete expired tokens."""
        match message:
            case StartDelegationTokens(settings, bridge, listener):
                self._settings = settings
                self._set_timer()
                return self.start(bridge, listener)
            case WakeupMessage(payload=payload) if payload == EXPIRY:
                self._set_timer()
                return self._delete_expired()
        return super().flow(message)

    def handle(self, forwarded: Forwarded, request: Message) -> Flow[None]:
        """Handle a client's request."""
        match request:
            case delegation_tokens.CreateDelegationTokenRequest():
                return self._create(forwarded, request)
            case delegation_tokens.DescribeDelegationTokenRequest():
                return self._describe(forwarded, request)
        return self._prolong(forwarded, request)

    def changes_after(self, heard: int) -> Flow[tuple[tuple[str, ...], int]]:
        """Return the ids of changed tokens, and the number of the newest notification."""
        changes = yield from ask(zookeeper.GetTokenChanges(heard))
        return changes.ids, changes.newest

    def publish(self, changed: tuple[str, ...] | None) -> Flow[None]:
        """Send these tokens, or all, to the listener."""
        tokens = (yield from ask(zookeeper.GetTokens(changed))).tokens
        removed = set(changed or ()) - {token.id for token in tokens}
        self.send(self._listener, DelegationTokensChanged(tokens, tuple(sorted(removed)), all=changed is None))

    def deletion_of_notifications(self, until: int) -> Question[Done]:
        """Return the request that deletes notifications."""
        return zookeeper.DeleteTokenChanges(until)

    def _set_timer(self) -> None:
        self.set_timer(EXPIRY, self._settings.delegation_token_expiry_check_interval_ms / 1000, EXPIRY)

    def _delete_expired(self) -> Flow[None]:
        """On the controller's node, delete the expired tokens (rule 3)."""
        controller = yield from ask(zookeeper.GetController(watch=False))
        if controller.broker_id != self._settings.node_id:
            return
        now = self.port("time").wall_ms()
        for token in (yield from ask(zookeeper.GetTokens())).tokens:
            if min(token.expires_ms, token.max_ms) < now:
                log.info("Delegation token expired for token: %s for owner: %s", token.id, token.owner)
                yield from self._delete(token.id)

    def _delete(self, id: str) -> Flow[None]:
        yield from ask(zookeeper.DeleteToken(id))
        self.send(self._listener, DelegationTokensChanged((), (id,)))

    def _set(self, token: DelegationToken) -> Flow[None]:
        yield from ask(zookeeper.SetToken(token))
        self.send(self._listener, DelegationTokensChanged((token,)))

    def _create(self, forwarded: Forwarded, request: delegation_tokens.CreateDelegationTokenRequest) -> Flow[None]:
        requester = forwarded.request.principal
        renewers = tuple(map(str, request.renewers))
        try:
            id, now = self.port("random").cluster_id(), self.port("time").wall_ms()
            owner = request.owner or requester
            token = create_token(id, owner, requester, renewers, request.max_lifetime_ms, now, self._settings)
        except Refused as refused:
            self.send(*forwarded.reply(delegation_tokens.CreateDelegationTokenResponse(refused.code)))
            return
        yield from self._set(token)
        one, other = delegation_tokens.token_principal(token.owner), delegation_tokens.token_principal(requester)
        self.send(
            *forwarded.reply(
                delegation_tokens.CreateDelegationTokenResponse(
                    errors.NONE,
                    one.principal_type,
                    one.principal_name,
                    token.issued_ms,
                    token.expires_ms,
                    token.max_ms,
                    token.id,
                    token_requester_principal_type=other.principal_type,
                    token_requester_principal_name=other.principal_name,
                )
            )
        )

    def _prolong(self, forwarded: Forwarded, request: AnyMessage) -> Flow[None]:
        """Renew or expire a token; a negative time deletes it if it is to expire."""
        expires = isinstance(request, delegation_tokens.ExpireDelegationTokenRequest)
        period = request.expiry_time_period_ms if expires else request.renew_period_ms
        respond = (
            delegation_tokens.ExpireDelegationTokenResponse
            if expires
            else delegation_tokens.RenewDelegationTokenResponse
        )
        found = (yield from ask(zookeeper.GetTokens((request.token_id,)))).tokens if request.token_id else ()
        now, default = self.port("time").wall_ms(), self._settings.delegation_token_expiry_time_ms
        try:
            token = prolong(found[0] if found else None, forwarded.request.principal, period, now, default)
        except Refused as refused:
            self.send(*forwarded.reply(respond(refused.code)))
            return
        if expires and period < 0:
            yield from self._delete(token.id)
            self.send(*forwarded.reply(respond(errors.NONE, now)))
            return
        yield from self._set(token)
        self.send(*forwarded.reply(respond(errors.NONE, token.expires_ms)))

    def _describe(self, forwarded: Forwarded, request: delegation_tokens.DescribeDelegationTokenRequest) -> Flow[None]:
        """Describe the tokens of some owners, or all; the listener leaves out those that the client may not see."""
        owners = None if request.owners is None else {str(owner) for owner in request.owners}
        tokens = (yield from ask(zookeeper.GetTokens())).tokens if owners is None or owners else ()
        described = tuple(
            [_describe_token(token) for token in tokens if owners is None or not owners.isdisjoint(token.principals)]
        )
        self.send(*forwarded.reply(delegation_tokens.DescribeDelegationTokenResponse(errors.NONE, described)))

    def event_failed(self, event: Message, error: Exception) -> None:
        """Answer a request that failed with UNKNOWN_SERVER_ERROR."""
        if isinstance(event, Forwarded):
            request = event.request.request
            self.send(*event.reply(API_BY_REQUEST[type(request)].refusal(request, errors.UNKNOWN_SERVER_ERROR)))
        else:
            super().event_failed(event, error)


def _describe_token(token: DelegationToken) -> delegation_tokens.DescribedToken:
    owner, requester = (
        delegation_tokens.token_principal(token.owner),
        delegation_tokens.token_principal(token.requester),
    )
    return delegation_tokens.DescribedToken(
        owner.principal_type,
        owner.principal_name,
        requester.principal_type,
        requester.principal_name,
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.id,
        tuple(map(delegation_tokens.token_principal, token.renewers)),
    )
