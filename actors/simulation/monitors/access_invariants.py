"""Rights: a request does what the ACLs in ZooKeeper allow at its time, and nothing that they forbid."""

from __future__ import annotations

import json
from collections.abc import Iterator

from actors.simulation.actions import LONGER
from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import RequestJudged, Ticked, UserAuthenticated
from actors.simulation.reachability import SLACK
from messages.apis.delete_records import DeleteRecordsRequest
from messages.apis.fetch import FetchRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.metadata import MetadataRequest
from messages.apis.update_metadata import UpdateMetadataRequest

LITERAL, PREFIXED = "/kafka-acl/", "/kafka-acl-extended/prefixed/"
USERS = "/config/users/"
NEEDED = {
    MetadataRequest: "Describe",
    ListOffsetsRequest: "Describe",
    FetchRequest: "Read",
    DeleteRecordsRequest: "Delete",
    UpdateMetadataRequest: "ClusterAction",
}
"""Class of requests -> the operation that it needs on its only topic, or on the cluster."""


class AccessInvariants(Monitor):
    """The rules for authorizers, checked against a second decision from the data in ZooKeeper."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._known: dict[str, bytes] = {}
        """The data of the ACLs and users by path."""
        self._changed_at: dict[str, float] = {}
        self._creators: set[str] = set()
        """The prefixes of the topics that users may create or might have created."""

    @observes
    def _tick(self, fact: Ticked) -> None:
        """Note which ACLs and users have changed."""
        self._note_changes()

    def _note_changes(self) -> None:
        nodes = self.cluster.zookeeper.nodes
        if "/kafka-acl" not in nodes:
            return  # no node has an authorizer
        now = {path: nodes[path].data or b"" for path in nodes if path.startswith((LITERAL, PREFIXED, USERS))}
        for path in now.keys() | self._known.keys():
            if now.get(path) != self._known.get(path):
                self._changed_at[path] = self.now
                if path.startswith(f"{PREFIXED}Topic/") and b'"All"' in now.get(path, b""):
                    self._creators.add(path.removeprefix(f"{PREFIXED}Topic/"))
        self._known = now

    @invariant("topics are created for clients with the right to", "KIP-11")
    def _creations_are_allowed(self, fact: Ticked) -> Iterator[str]:
        """A topic that only users without Create have named does not exist."""
        for topic in self.znodes.topics:
            if topic.endswith(LONGER) and not topic.startswith(tuple(self._creators)):
                yield f"{topic} exists, which no user may create"

    @invariant("users with a credential are accepted, and no others", "KIP-84")
    def _credentials_decide(self, fact: UserAuthenticated) -> Iterator[str]:
        """Except for SLACK seconds after a change, and for nodes that were not healthy all this time."""
        self._note_changes()
        path = f"{USERS}{fact.user}"
        settled = self.now - self._changed_at.get(path, 0.0)
        expected = b"SCRAM-SHA-256" in self._known.get(path, b"")
        if min(settled, self.nodes.healthy_for(fact.node)) > SLACK and expected != fact.accepted:
            verdict = "accepts" if fact.accepted else "refuses"
            yield f"node {fact.node} {verdict} {fact.user}, which has {'a' if expected else 'no'} credential"

    @invariant("requests do what the ACLs allow, and nothing else", "KIP-11, KIP-290")
    def _acls_decide(self, fact: RequestJudged) -> Iterator[str]:
        """Except for SLACK seconds after a change, and for nodes that were not healthy all this time."""
        operation = NEEDED.get(type(fact.request))
        if operation is None or fact.principal.startswith(("User:node-", "User:client")):
            return
        self._note_changes()
        kind, name = ("Cluster", "kafka-cluster") if operation == "ClusterAction" else ("Topic", _topic(fact.request))
        paths = [f"{LITERAL}{kind}/{name}", f"{LITERAL}{kind}/*"]
        paths += [f"{PREFIXED}{kind}/{name[:size]}" for size in range(1, len(name) + 1)]
        settled = min([self.now - self._changed_at.get(path, 0.0) for path in paths])
        if min(settled, self.nodes.healthy_for(fact.node)) <= SLACK:
            return
        acls = [acl for path in paths if path in self._known for acl in json.loads(self._known[path] or "{}")["acls"]]
        mine = [acl for acl in acls if acl["principal"] in (fact.principal, "User:*")]
        denied = {acl["operation"] for acl in mine if acl["permissionType"] == "Deny"}
        allowed = {acl["operation"] for acl in mine if acl["permissionType"] == "Allow"}
        enough = {operation, "All"} | ({"Read", "Write", "Delete", "Alter"} if operation == "Describe" else set())
        expected = not denied & {operation, "All"} and bool(allowed & enough)
        if expected != fact.allowed:
            verdict = "allowed" if fact.allowed else "refused"
            yield f"node {fact.node} {verdict} {operation} on {name} for {fact.principal}, whose ACLs are {mine}"


def _topic(request: MetadataRequest | ListOffsetsRequest | FetchRequest | DeleteRecordsRequest) -> str:
    if isinstance(request, MetadataRequest):
        return (request.topics or ("",))[0]
    return request.partitions[0].partition.topic
