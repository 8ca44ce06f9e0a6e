"""AuthorizerActor keeps the listener's ACLs current, and handles the requests about ACLs.

A request that changes ACLs is answered after the change is written and sent to this node's listener. The other nodes
read the notification (`change_listener`).

The listener makes the decisions (`actors.core.security.access`). Kafka: `AclAuthorizer`, `AclApis`.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from actors.broker.change_listener import ChangeListener
from actors.core.security import acl_requests
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
from messages.ask import AskFailed, Done, Question
from messages.flow.conversation import Flow, ask
from messages.network import CloseClient, Forwarded
from messages.node import StartAuthorizer
from messages.vocabulary import AnyMessage, Message

log = logging.getLogger("kafka.authorizer.logger")


class AuthorizerActor(ChangeListener[AclResource, tuple[int, int]]):
    """Each node with an authorizer has one such actor."""

    notifications: ClassVar = (zookeeper.AclChangeNotification, zookeeper.ExtendedAclChangeNotification)
    none_heard: ClassVar = (-1, -1)

    def flow(self, message: Message) -> Flow[None] | None:
        """Read changes, and handle requests."""
        if isinstance(message, StartAuthorizer):
            return self.start(message.bridge, message.listener)
        return super().flow(message)

    def handle(self, forwarded: Forwarded, request: AnyMessage) -> Flow[None]:
        """Handle a client's request."""
        match request:
            case CreateAclsRequest():
                return self._create(forwarded, request)
            case DeleteAclsRequest():
                return self._delete(forwarded, request)
        return self._describe(forwarded, request)

    def changes_after(self, heard: tuple[int, int]) -> Flow[tuple[tuple[AclResource, ...], tuple[int, int]]]:
        """Return the resources with other ACLs, and the numbers of the newest notifications."""
        changes = yield from ask(zookeeper.GetAclChanges(heard))
        return changes.resources, changes.newest

    def publish(self, changed: tuple[AclResource, ...] | None) -> Flow[None]:
        """Send the ACLs of these resources, or all ACLs, to the listener."""
        acls = yield from ask(zookeeper.GetAcls(changed))
        self.send(self._listener, AclsChanged(acls.resources, all=changed is None))

    def deletion_of_notifications(self, until: tuple[int, int]) -> Question[Done]:
        """Return the request that deletes notifications."""
        return zookeeper.DeleteAclChanges(until)

    def _describe(self, forwarded: Forwarded, request: DescribeAclsRequest) -> Flow[None]:
        acls = yield from ask(zookeeper.GetAcls())
        found = acl_requests.group_by_resource(acl_requests.matching(request, acls.resources))
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
                tuple(
                    [
                        acl_requests.deletion_result(*acl, codes[acl[0]])
                        for acl, where in first.items()
                        if where == index
                    ]
                ),
            )
            for index in range(len(request.filters))
        )
        self.send(*forwarded.reply(DeleteAclsResponse(results)))
