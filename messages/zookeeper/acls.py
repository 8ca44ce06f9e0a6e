"""Requests to the ZooKeeper bridge about ACLs, and the notifications of their changes."""

from __future__ import annotations

from messages.acls import Acl, AclResource, ResourceAcls
from messages.ask import Done
from messages.events import Watch
from messages.store import CHILDREN_CHANGED
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class AclChangeNotification(Message):
    """The children of /kafka-acl-changes have changed: a resource with a literal name has other ACLs."""

    watch = Watch("/kafka-acl-changes", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class ExtendedAclChangeNotification(Message):
    """The children of /kafka-acl-extended-changes have changed: a resource with a prefix has other ACLs."""

    watch = Watch("/kafka-acl-extended-changes", (CHILDREN_CHANGED,))
    generation: int = 0


@message
class EnsureAclPaths(BridgeQuestion[Done]):
    """A request to create the persistent paths of ACLs; the reply is Done."""


@message
class GetAcls(BridgeQuestion["Acls"]):
    """A request to read the ACLs of resources, or of all resources that have any if None; the reply is Acls."""

    resources: tuple[AclResource, ...] | None = None


@message
class Acls(Message):
    """The reply to GetAcls and ChangeAcls; a resource without a znode has no ACLs."""

    resources: tuple[ResourceAcls, ...]


@message
class ChangeAcls(BridgeQuestion["Acls"]):
    """A request to add ACLs to a resource and to remove some, with a notification; the reply is Acls.

    Nothing is written if the resource has the ACLs already.
    """

    resource: AclResource
    add: tuple[Acl, ...] = ()
    remove: tuple[Acl, ...] = ()


@message
class GetAclChanges(BridgeQuestion["AclChanges"]):
    """A request to read and watch the notifications with higher numbers than these; the reply is AclChanges.

    There is one number for each of the two paths of notifications.
    """

    after: tuple[int, int]


@message
class AclChanges(Message):
    """The reply to GetAclChanges: the resources with other ACLs, and the highest number of a notification per path."""

    resources: tuple[AclResource, ...]
    newest: tuple[int, int]


@message
class DeleteAclChanges(BridgeQuestion[Done]):
    """A request to delete notifications with at most these numbers; the reply is Done."""

    until: tuple[int, int]
