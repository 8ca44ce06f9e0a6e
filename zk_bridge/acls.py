"""ZooKeeper operations on ACLs, and their data.

Rule 1: /kafka-acl/TYPE/NAME has the ACLs of a literal name, /kafka-acl-extended/prefixed/TYPE/NAME those of a prefix.
        The last ACL of a resource goes with its znode.
Rule 2: a change is conditional on the znode's version, and is written together with its notification.
Rule 3: an ACL with an unknown operation or permission is skipped with a warning. A znode that cannot be read has the
        ACLs None.

Kafka: `ZkData` (`ResourceZNode`, `LiteralAclChangeStore`, `ExtendedAclChangeStore`).
"""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Any

from messages import store, zookeeper
from messages.acls import (
    Acl,
    AclResource,
    Operation,
    PatternType,
    Permission,
    ResourceAcls,
    ResourceType,
    member_named,
    znode_name,
)
from messages.ask import BadZnode, Done
from zk_bridge import conversations, notifications, znodes

logger = logging.getLogger(__name__)

LITERAL, PREFIXED = "/kafka-acl", "/kafka-acl-extended/prefixed"
CHANGES = (zookeeper.AclChangeNotification.watch.path, zookeeper.ExtendedAclChangeNotification.watch.path)
CHANGE = "acl_changes_"
TYPES = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
PERSISTENT = (*(f"{parent}/{znode_name(kind)}" for parent in (LITERAL, PREFIXED) for kind in TYPES), *CHANGES)


def path_of(resource: AclResource) -> str:
    """Return the path of a resource's ACLs."""
    parent = PREFIXED if resource.pattern == PatternType.PREFIXED else LITERAL
    return f"{parent}/{znode_name(ResourceType(resource.type))}/{resource.name}"


def _code_of(kind: type[IntEnum], text: object, what: str) -> int:
    member = member_named(kind, znodes.valid_text(text, what))
    if member is None:
        raise znodes.InvalidValue(f"unknown {what} {znodes.shortened_repr(text)}")
    return int(member)


def encode_acls(acls: tuple[Acl, ...]) -> bytes:
    """Encode the ACLs of a resource."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": znode_name(Permission(acl.permission)),
            "host": acl.host,
            "operation": znode_name(Operation(acl.operation)),
        }
        for acl in acls
    ]
    return znodes.encode({"version": 1, "acls": entries})


def decode_acls(path: str, data: bytes | None) -> tuple[Acl, ...]:
    """Return the ACLs in a znode (rule 3). Raises BadZnode."""

    def read(data: bytes | None) -> tuple[Acl, ...]:
        if not data:
            return ()
        members = znodes.parse(data)
        if znodes.number_member(members, "version") != 1:
            raise znodes.InvalidValue("its version is not 1")
        found: dict[Acl, None] = {}
        for each in znodes.member(members, "acls", list):
            if type(each) is not dict:
                raise znodes.InvalidValue(f"acls holds {znodes.shortened_repr(each)}, expected objects")
            try:
                found[_acl(each)] = None
            except znodes.InvalidValue as torn:
                logger.error("Ignoring an ACL in %s: %s", path, torn)
        return tuple(found)

    acls: tuple[Acl, ...] = znodes.naming(path, data, read)
    return acls


def _acl(entry: dict[str, Any]) -> Acl:
    return Acl(
        znodes.valid_text(znodes.member(entry, "principal", str), "principal"),
        znodes.valid_text(znodes.member(entry, "host", str), "host"),
        _code_of(Operation, entry.get("operation"), "operation"),
        _code_of(Permission, entry.get("permissionType"), "permission"),
    )


def _note(resource: AclResource) -> store.WriteOp:
    """Return the notification of a change."""
    kind = ResourceType(resource.type).name
    if resource.pattern == PatternType.PREFIXED:
        data = {"version": 1, "resourceType": kind, "name": resource.name, "patternType": "PREFIXED"}
        return store.WriteOp(store.CREATE_SEQUENTIAL, f"{CHANGES[1]}/{CHANGE}", znodes.encode(data))
    return store.WriteOp(store.CREATE_SEQUENTIAL, f"{CHANGES[0]}/{CHANGE}", f"{kind}:{resource.name}".encode())


def _resource_in(path: str, data: bytes | None) -> AclResource:
    """Return the resource in a notification. Raises BadZnode."""

    def of_text(data: bytes | None) -> AclResource:
        kind, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        if not (colon and name):
            raise znodes.InvalidValue("it does not have the form TYPE:NAME")
        return AclResource(_code_of(ResourceType, kind, "resource type"), name)

    def of_json(data: bytes | None) -> AclResource:
        members = znodes.parse(data)
        kind = _code_of(ResourceType, members.get("resourceType"), "resource type")
        pattern = _code_of(PatternType, members.get("patternType"), "pattern type")
        return AclResource(kind, znodes.valid_text(members.get("name"), "name"), pattern)

    found: AclResource = znodes.naming(path, data, of_text if path.startswith(CHANGES[0] + "/") else of_json)
    return found


def ensure_acl_paths(question: zookeeper.EnsureAclPaths) -> conversations.Conversation:
    """Create the persistent paths."""
    yield from conversations.create_missing(PERSISTENT)
    return Done()


def get_acls(question: zookeeper.GetAcls) -> conversations.Conversation:
    """Return the ACLs of resources."""
    resources = question.resources
    if resources is None:
        parents = tuple(
            (f"{parent}/{znode_name(kind)}", kind, pattern)
            for parent, pattern in ((LITERAL, PatternType.LITERAL), (PREFIXED, PatternType.PREFIXED))
            for kind in TYPES
        )
        listed = yield from conversations.children_of(tuple(path for path, _, _ in parents))
        resources = tuple(
            AclResource(int(kind), name, int(pattern))
            for (_, kind, pattern), names in zip(parents, listed, strict=True)
            for name in names or ()
        )
    node_paths = tuple(map(path_of, resources))
    nodes = yield from conversations.data_of(node_paths)
    found = []
    for resource, path, node in zip(resources, node_paths, nodes, strict=True):
        try:
            found.append(ResourceAcls(resource, decode_acls(path, node.data)))
        except BadZnode as error:
            logger.error("Ignoring unreadable ACLs, so the last readable ones remain: %s", error)
            found.append(ResourceAcls(resource, None))
    return zookeeper.Acls(tuple(found))


def change_acls(question: zookeeper.ChangeAcls) -> conversations.Conversation:
    """Add and remove ACLs of a resource (rule 2)."""
    resource, path = question.resource, path_of(question.resource)
    while True:
        (node,) = yield from conversations.data_of((path,))
        before = decode_acls(path, node.data)
        kept = (acl for acl in before if acl not in question.remove)
        after = tuple(dict.fromkeys((*kept, *question.add)))
        if after == before:
            return zookeeper.Acls((ResourceAcls(resource, before),))
        write = store.WriteOp(store.SET, path, encode_acls(after), node.version)
        if node.code == store.NO_NODE:
            write = store.WriteOp(store.CREATE, path, write.data)
        elif not after:
            write = store.WriteOp(store.DELETE, path, None, node.version)
        raced = (store.BAD_VERSION, store.NODE_EXISTS, store.NO_NODE)
        reply = yield from conversations.transact((write, _note(resource)), *raced)
        if reply.code == store.OK:
            return zookeeper.Acls((ResourceAcls(resource, after),))
        yield from conversations.create_missing(PERSISTENT)


def get_acl_changes(question: zookeeper.GetAclChanges) -> conversations.Conversation:
    """Return the resources that are named by notifications with numbers above `after`."""
    listed = yield from conversations.children_of(CHANGES, watch=True)
    found: list[AclResource] = []
    newest = []
    for parent, names, after in zip(CHANGES, listed, question.after, strict=True):
        numbers = notifications.numbers_after(names or (), CHANGE, after)
        node_paths = tuple(f"{parent}/{CHANGE}{number:010d}" for number in numbers)
        read = yield from notifications.read_notifications(node_paths, _resource_in, "of changed ACLs")
        found += [resource for resource in read.values() if resource is not None]
        newest.append(numbers[-1] if numbers else after)
    return zookeeper.AclChanges(tuple(dict.fromkeys(found)), (newest[0], newest[1]))


def delete_acl_changes(question: zookeeper.DeleteAclChanges) -> conversations.Conversation:
    """Delete old notifications. Another broker may have deleted them already."""
    listed = yield from conversations.children_of(CHANGES)
    old = [
        f"{parent}/{name}"
        for parent, names, until in zip(CHANGES, listed, question.until, strict=True)
        for name in names or ()
        if (number := name.removeprefix(CHANGE)).isdecimal() and int(number) <= until
    ]
    yield from conversations.delete_present(old, None)
    return Done()


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.EnsureAclPaths: ensure_acl_paths,
    zookeeper.GetAcls: get_acls,
    zookeeper.ChangeAcls: change_acls,
    zookeeper.GetAclChanges: get_acl_changes,
    zookeeper.DeleteAclChanges: delete_acl_changes,
}
