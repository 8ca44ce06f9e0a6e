"""Functions that check consumer groups; the table `INVARIANTS` of `actors.simulation.invariants` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.exchanges import ResponseSent, kept_for
from actors.simulation.replicas import SLACK
from actors.simulation.response_codes import codes_of
from messages import errors
from messages.apis import describe_groups, heartbeat, leave_group, offset_commit, offset_fetch, sync_group
from messages.vocabulary import Message

if TYPE_CHECKING:
    from actors.simulation.checker import Checker


def accepts(request: Message, response: Any) -> bool:
    """Return whether a coordinator accepted a request about a group, or a commit for at least one partition."""
    if isinstance(request, offset_commit.OffsetCommitRequest):
        return any(each.error_code == errors.NONE for each in response.partitions)
    return bool(response.error_code == errors.NONE)


def group_responses_are_in_the_log(law: Checker, change: ResponseSent) -> Iterator[str]:
    """The record of an accepted commit or assignment is below the high watermark before the coordinator responds."""
    request, partition = change.request, None
    if isinstance(request, sync_group.SyncGroupRequest | offset_commit.OffsetCommitRequest) and accepts(
        request, change.response
    ):
        partition = law.exchanges.group_partition(request.group_id)
    log = None if partition is None else law.replicas.log(change.node, partition)
    if log is None or partition is None or change.log_end < 0 or law.is_lossy(partition):
        return
    if log.high_watermark <= change.log_end:
        yield (
            f"node {change.node} accepted {type(request).__name__} of {request.group_id}, which arrived at log end"
            f" {change.log_end} of {partition}; its high watermark is {log.high_watermark}"
        )


def silent_members_leave_the_group(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A group's generation has no member that was silent for its session timeout."""
    request, cluster = change.request, law.cluster
    if not isinstance(request, heartbeat.HeartbeatRequest) or change.response.error_code != errors.NONE:
        return
    view = law.exchanges.groups.get((change.process, request.group_id))
    if view is None or view.generation != request.generation_id:
        return
    for member in change.left:
        if member != request.member_id and member in view.members:
            yield f"{member} has left {request.group_id}, and is in generation {view.generation}"
    for member in view.members:
        timeout = view.session_timeouts.get(member)
        if member == request.member_id or timeout is None or view.waiting.get(member):
            continue
        silent = cluster.now - max(view.heard_at.get(member, 0.0), view.since)
        long = timeout * 1.03 + SLACK
        if silent > long and law.replicas.healthy_for(cluster, change.node) > long:
            yield (
                f"{member} is in generation {view.generation} of {request.group_id}, and silent for {silent:.1f} s;"
                f" its session timeout is {timeout:g} s"
            )


def active_members_stay_in_the_group(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A member is not removed before its session timeout; a static member may be replaced."""
    request = change.request
    if not isinstance(request, heartbeat.HeartbeatRequest):
        return
    view = law.exchanges.groups.get((change.process, request.group_id))
    if view is None or change.response.error_code != errors.UNKNOWN_MEMBER_ID or request.group_instance_id is not None:
        return
    timeout = view.session_timeouts.get(request.member_id, 0.0)
    if request.generation_id != view.generation or request.member_id in view.left:
        return
    if change.renewed < kept_for(timeout) and law.replicas.healthy_for(law.cluster, change.node) > timeout:
        yield (
            f"node {change.node} removed {request.member_id} from generation {view.generation} of {request.group_id},"
            f" whose last request arrived {change.renewed:.1f} s ago; its session timeout is {timeout:g} s"
        )


def fetched_offsets_were_committed(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A coordinator returns the last committed offset."""
    request, response = change.request, change.response
    if (
        not isinstance(request, offset_fetch.OffsetFetchRequest)
        or response.error_code != errors.NONE
        or law.power_failed
    ):
        return
    if law.is_lossy(law.exchanges.group_partition(request.group_id)):
        return
    for result in response.partitions:
        if result.error_code != errors.NONE or result.partition.topic != GROUP_METADATA:
            continue
        commits = law.exchanges.commits.get((request.group_id, result.partition), [])
        found = [commit for commit in commits if commit.offset == result.committed_offset]
        if result.committed_offset >= 0 and not found:
            yield f"{request.group_id}: offset {result.committed_offset} of {result.partition} was never committed"
        elif change.is_current and result.committed_offset >= 0 and all(c.superseded_at < change.at for c in found):
            yield f"{request.group_id}: offset {result.committed_offset} of {result.partition} is not the last commit"
        elif change.is_current and result.committed_offset < 0:
            for commit in commits:
                acknowledged = commit.acknowledged_at is not None and commit.acknowledged_at < change.at
                if acknowledged and not commit.may_be_deleted:
                    yield f"{request.group_id}: commit {commit.offset} of {result.partition} is not found"


def coordinators_know_the_members(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A coordinator knows the members that its predecessor knew: it loads them from the log before it answers."""
    now = law.cluster.now
    for (group, member), confirmation in change.confirmed.items():
        later = law.exchanges.confirmation_of(group, member)
        is_same = later is not None and later.generation == confirmation.generation
        if now > confirmation.until or law.is_lossy(law.exchanges.group_partition(group)):
            continue
        if is_same or isinstance(change.request, leave_group.LeaveGroupRequest):
            for result in _unknown_to(change.request, change.response, group, member, confirmation.generation):
                yield (
                    f"node {change.node} answered {type(change.request).__name__} with {result}; {member} is in"
                    f" generation {confirmation.generation} of {group}"
                )


def _unknown_to(request: Message, response: Any, group: str, member: str, generation: int) -> Iterator[str]:
    """Yield a text for each place in the response where the member or its generation counts as unknown."""
    match request:
        case heartbeat.HeartbeatRequest() | sync_group.SyncGroupRequest() | offset_commit.OffsetCommitRequest():
            if (request.member_id, request.generation_id) == (member, generation):
                refusals = (errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION)
                yield from (f"error {code}" for code in codes_of(response) if code in refusals)
        case leave_group.LeaveGroupRequest():
            for each in response.members:
                if each.member_id == member and each.error_code == errors.UNKNOWN_MEMBER_ID:
                    yield f"error {each.error_code}"
        case describe_groups.DescribeGroupsRequest():
            for each in response.groups:
                if each.group_id == group and each.error_code == errors.NONE and each.group_state == "Dead":
                    yield f"state {each.group_state}"
