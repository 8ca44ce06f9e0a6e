"""ZooKeeper operations on delegation tokens, and their data (KIP-48).

A token's znode is version 3, which Kafka 3.3 and later read. Its HMAC is not in ZooKeeper.

Kafka: `ZkData` (`DelegationTokenInfoZNode`), `DelegationTokenManager`.
"""

from __future__ import annotations

import logging

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.client_quotas import desanitize, sanitize
from messages.delegation_tokens import DelegationToken
from zk_bridge import conversations, notifications, paths, znodes

logger = logging.getLogger(__name__)

CHANGES = zookeeper.TokenChangeNotification.watch.path
CHANGE = "token_change_"


def encode_token(token: DelegationToken) -> bytes:
    """Encode a token as Kafka does: names are sanitized."""
    return znodes.encode(
        {
            "version": 3,
            "owner": sanitize(token.owner),
            "tokenRequester": sanitize(token.requester),
            "renewers": [sanitize(renewer) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "expiryTimestamp": token.expires_ms,
            "maxTimestamp": token.max_ms,
            "tokenId": token.id,
        }
    )


def decode_token(path: str, data: bytes | None) -> DelegationToken:
    """Return the token in a znode. Raises BadZnode."""

    def read(data: bytes | None) -> DelegationToken:
        members = znodes.parse(data)
        if not 1 <= znodes.number_member(members, "version") <= 3:
            raise znodes.InvalidValue("its version is not 1 to 3")
        owner = znodes.valid_text(members.get("owner"), "owner")
        return DelegationToken(
            znodes.valid_text(members.get("tokenId"), "tokenId"),
            desanitize(owner),
            desanitize(znodes.valid_text(members.get("tokenRequester", owner), "tokenRequester")),
            tuple(
                desanitize(znodes.valid_text(each, "a renewer")) for each in znodes.member(members, "renewers", list)
            ),
            *(
                znodes.number(members.get(name), name, 0, znodes.INT64)
                for name in ("issueTimestamp", "expiryTimestamp", "maxTimestamp")
            ),
        )

    token: DelegationToken = znodes.naming(path, data, read)
    return token


def ensure_token_paths(question: zookeeper.EnsureTokenPaths) -> conversations.Conversation:
    """Create the persistent paths."""
    yield from conversations.create_missing((paths.DELEGATION_TOKENS, CHANGES))
    return Done()


def get_tokens(question: zookeeper.GetTokens) -> conversations.Conversation:
    """Return tokens. An unreadable one is logged and left out."""
    ids = question.ids
    if ids is None:
        (ids,) = yield from conversations.children_of((paths.DELEGATION_TOKENS,))
    node_paths = tuple(f"{paths.DELEGATION_TOKENS}/{id}" for id in ids or ())
    nodes = yield from conversations.data_of(node_paths)
    found = []
    for path, node in zip(node_paths, nodes, strict=True):
        if node.code == store.OK:
            try:
                found.append(decode_token(path, node.data))
            except BadZnode as error:
                logger.error("Ignoring an unreadable delegation token: %s", error)
    return zookeeper.Tokens(tuple(found))


def _note(id: str) -> store.WriteOp:
    return store.WriteOp(store.CREATE_SEQUENTIAL, f"{CHANGES}/{CHANGE}", id.encode())


def set_token(question: zookeeper.SetToken) -> conversations.Conversation:
    """Create or change a token, and write the notification in the same transaction."""
    path, data = f"{paths.DELEGATION_TOKENS}/{question.token.id}", encode_token(question.token)
    while True:
        (node,) = yield from conversations.data_of((path,))
        kind = store.CREATE if node.code == store.NO_NODE else store.SET
        ops = store.WriteOp(kind, path, data), _note(question.token.id)
        reply = yield from conversations.transact(ops, store.NODE_EXISTS, store.NO_NODE)
        if reply.code == store.OK:
            return Done()
        yield from conversations.create_missing((paths.DELEGATION_TOKENS, CHANGES))


def delete_token(question: zookeeper.DeleteToken) -> conversations.Conversation:
    """Delete a token, and write the notification in the same transaction. It may be deleted already."""
    ops = store.WriteOp(store.DELETE, f"{paths.DELEGATION_TOKENS}/{question.id}"), _note(question.id)
    yield from conversations.transact(ops, store.NO_NODE)
    return Done()


def get_token_changes(question: zookeeper.GetTokenChanges) -> conversations.Conversation:
    """Return the ids of the tokens that are named by notifications with numbers above `after`."""
    (listed,) = yield from conversations.children_of((CHANGES,), watch=True)
    numbers = notifications.numbers_after(listed or (), CHANGE, question.after)
    node_paths = tuple(f"{CHANGES}/{CHANGE}{number:010d}" for number in numbers)
    read = yield from notifications.read_notifications(node_paths, _id_in, "of a changed delegation token")
    return zookeeper.TokenChanges(
        tuple(dict.fromkeys(filter(None, read.values()))), max(numbers, default=question.after)
    )


def _id_in(path: str, data: bytes | None) -> str:
    def read(data: bytes | None) -> str:
        id = (data or b"").decode("utf-8", "replace")
        if not id or "/" in id:
            raise znodes.InvalidValue("it names no token")
        return id

    id: str = znodes.naming(path, data, read)
    return id


def delete_token_changes(question: zookeeper.DeleteTokenChanges) -> conversations.Conversation:
    """Delete old notifications. Another broker may have deleted them already."""
    (listed,) = yield from conversations.children_of((CHANGES,))
    numbers = notifications.numbers_after(listed or (), CHANGE, -1)
    old = [f"{CHANGES}/{CHANGE}{number:010d}" for number in numbers if number <= question.until]
    yield from conversations.delete_present(old, None)
    return Done()


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.EnsureTokenPaths: ensure_token_paths,
    zookeeper.GetTokens: get_tokens,
    zookeeper.SetToken: set_token,
    zookeeper.DeleteToken: delete_token,
    zookeeper.GetTokenChanges: get_token_changes,
    zookeeper.DeleteTokenChanges: delete_token_changes,
}
