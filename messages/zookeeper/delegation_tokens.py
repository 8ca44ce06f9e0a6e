"""Requests to the ZooKeeper bridge about delegation tokens, and the notification of their changes."""

from __future__ import annotations

from messages.ask import Done
from messages.delegation_tokens import DelegationToken
from messages.events import Watch
from messages.store import CHILDREN_CHANGED
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class TokenChangeNotification(Message):
    """The children of /delegation_token/token_changes have changed: a token was created, changed or deleted."""

    watch = Watch("/delegation_token/token_changes", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class EnsureTokenPaths(BridgeQuestion[Done]):
    """A request to create the persistent paths of delegation tokens; the reply is Done."""


@message
class GetTokens(BridgeQuestion["Tokens"]):
    """A request to read delegation tokens by id, or all if None; the reply is Tokens."""

    ids: tuple[str, ...] | None = None


@message
class Tokens(Message):
    """The reply to GetTokens: the tokens that exist and are readable."""

    tokens: tuple[DelegationToken, ...]


@message
class SetToken(BridgeQuestion[Done]):
    """A request to create or change a delegation token, with a notification; the reply is Done."""

    token: DelegationToken


@message
class DeleteToken(BridgeQuestion[Done]):
    """A request to delete a delegation token, with a notification; the reply is Done."""

    id: str


@message
class GetTokenChanges(BridgeQuestion["TokenChanges"]):
    """A request to read and watch the notifications with higher numbers; the reply is TokenChanges."""

    after: int


@message
class TokenChanges(Message):
    """The reply to GetTokenChanges: the ids of the changed tokens, and the highest number of a notification."""

    ids: tuple[str, ...]
    newest: int


@message
class DeleteTokenChanges(BridgeQuestion[Done]):
    """A request to delete notifications with at most this number; the reply is Done."""

    until: int
