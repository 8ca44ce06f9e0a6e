"""AuthorizerActor keeps the listener's ACLs current, and handles the requests about ACLs.

Rule 1: each change of ACLs creates a notification, which names a resource. Notifications are read once, in order; the
        listener receives the resource's ACLs as they are at the time of reading. In a new session all ACLs are read.
Rule 2: a request that changes ACLs is answered after the change is written and sent to this node's listener. The other
        nodes read the notification.
Rule 3: a read also deletes the notifications that were first seen more than 15 minutes ago.

The listener makes the decisions (`actors.core.security.access`). Kafka: `AclAuthorizer`, `AclApis`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import ClassVar

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.security import acl_requests
from actors.runtime import FlowActor
from messages import errors, zookeeper
from messages.acls import Acl, AclResource, AclsChanged
from messages.apis.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from messages.ask import AskFailed
from messages.events import SessionExpired
from messages.flow.conversation import Flow, ask
from messages.network import CloseClient, Forwarded
from messages.node import StartAuthorizer
from messages.vocabulary import Message

log = logging.getLogger("kafka.authorizer.logger")

KEPT_SECONDS = 15 * 60.0
AGAIN_SECONDS = 1.0


class AuthorizerActor(FlowActor):
    """Each node with an authorizer has one such actor."""

    answer_deadline: ClassVar[float] = 3600.0
    """Seconds. The bridge keeps questions while ZooKeeper is unavailable, and waiting for it loses nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._listener: ActorAddress
        self._heard = (-1, -1)
        """The numbers of the newest notifications that were read."""
        self._seen: list[tuple[float, tuple[int, int]]] = []
        """When notifications were first seen, and the newest of them (rule 3)."""
        self._is_new_session = False

    def flow(self, message: Message) -> Flow[None] | None:
        """Read changes at the start, in a new session, and on each notification of the watch; handle requests."""
        match message:
            case StartAuthorizer(_, bridge, listener):
                self._listener, self.peers = listener, {"bridge": bridge}
                return self._listen()
            case SessionExpired():
                self._is_new_session = True
                return self._listen()
            case zookeeper.AclChangeNotification() | zookeeper.ExtendedAclChangeNotification() | WakeupMessage():
                return self._listen()
            case Forwarded(_, request):
                match request.request:
                    case DescribeAclsRequest() as describe:
                        return self._describe(message, describe)
                    case CreateAclsRequest() as create:
                        return self._create(message, create)
                    case DeleteAclsRequest() as delete:
                        return self._delete(message, delete)
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Retry a failed read after a short delay; refuse a request that failed."""
        if isinstance(event, Forwarded):
            self.send(event.client, CloseClient(event.request.connection, f"ACLs cannot be read: {error}"))
        else:
            self.wakeupAfter(timedelta(seconds=AGAIN_SECONDS))

    def preempts(self, message: Message) -> bool:
        """Return whether the message ends the current read; only a lost session does."""
        return isinstance(message, SessionExpired)

    def preempted(self, dropped: list[tuple[Message, ActorAddress]]) -> None:
        """Refuse the requests that were dropped: their clients try again."""
        for message, _ in dropped:
            if isinstance(message, Forwarded):
                self.send(message.client, CloseClient(message.request.connection, "the ZooKeeper session is lost"))

    def _listen(self) -> Flow[None]:
        """Read the changed ACLs, and send them to the listener (rule 1)."""
        changes = yield from ask(zookeeper.GetAclChanges(self._heard))
        if self._is_new_session or changes.resources:
            resources = None if self._is_new_session else changes.resources
            acls = yield from ask(zookeeper.GetAcls(resources))
            self.send(self._listener, AclsChanged(acls.resources, all=self._is_new_session))
        self._is_new_session = False
        if changes.newest != self._heard:
            self._heard = changes.newest
            self._seen.append((self.now, changes.newest))
        if self._seen and self.now - self._seen[0][0] > KEPT_SECONDS:
            yield from ask(zookeeper.DeleteAclChanges(self._seen.pop(0)[1]))

    def _describe(self, forwarded: Forwarded, request: DescribeAclsRequest) -> Flow[None]:
        acls = yield from ask(zookeeper.GetAcls())
        found = acl_requests.described(acl_requests.matching(request, acls.resources))
        self.send(*forwarded.reply(DescribeAclsResponse(errors.NONE, "", found)))

    def _change(self, resource: AclResource, add: tuple[Acl, ...], remove: tuple[Acl, ...]) -> Flow[bool]:
        """Change the ACLs of a resource (rule 2). Return whether they are changed."""
        try:
            changed = yield from ask(zookeeper.ChangeAcls(resource, add, remove))
        except AskFailed as error:
            log.error("The ACLs of %s cannot be changed: %s", resource, error)
            return False
        self.send(self._listener, AclsChanged(changed.resources))
        return True

    def _create(self, forwarded: Forwarded, request: CreateAclsRequest) -> Flow[None]:
        """Create ACLs, resource by resource: the creations of a resource succeed or fail together."""
        creations = request.creations
        if acl_requests.is_unreadable(creations):
            self.send(forwarded.client, CloseClient(forwarded.request.connection, "an ACL has an unknown code"))
            return
        failed = AclCreationResult(errors.UNKNOWN_SERVER_ERROR)
        if acl_requests.is_vague(creations):
            self.send(*forwarded.reply(CreateAclsResponse((failed,) * len(creations))))
            return
        results = [acl_requests.problem_of(creation) for creation in creations]
        resources: dict[AclResource, list[int]] = {}
        for index, creation in enumerate(creations):
            if results[index] is None:
                resources.setdefault(acl_requests.resource_of(creation), []).append(index)
        for resource, indices in resources.items():
            done = all(":" in creations[index].principal for index in indices)
            if done:
                add = tuple(acl_requests.acl_of(creations[index]) for index in indices)
                done = yield from self._change(resource, add, ())
            for index in indices:
                results[index] = AclCreationResult(errors.NONE, "") if done else failed
        self.send(*forwarded.reply(CreateAclsResponse(tuple([each or failed for each in results]))))

    def _delete(self, forwarded: Forwarded, request: DeleteAclsRequest) -> Flow[None]:
        """Delete the ACLs that match; an ACL is listed with the first filter that matches it."""
        acls = yield from ask(zookeeper.GetAcls())
        first: dict[tuple[AclResource, Acl], int] = {}
        for index, filter in enumerate(request.filters):
            for found in acl_requests.matching(filter, acls.resources):
                first.setdefault(found, index)
        of_resource: dict[AclResource, list[Acl]] = {}
        for resource, acl in first:
            of_resource.setdefault(resource, []).append(acl)
        codes = {}
        for resource, gone in of_resource.items():
            done = yield from self._change(resource, (), tuple(gone))
            codes[resource] = errors.NONE if done else errors.UNKNOWN_SERVER_ERROR
        results = tuple(
            DeleteAclsFilterResult(
                errors.NONE,
                None,
                tuple([acl_requests.deleted(*acl, codes[acl[0]]) for acl, where in first.items() if where == index]),
            )
            for index in range(len(request.filters))
        )
        self.send(*forwarded.reply(DeleteAclsResponse(results)))
