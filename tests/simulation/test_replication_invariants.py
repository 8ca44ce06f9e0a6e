"""Each invariant of requests and logs is violated with a mutant that breaks its rule, and holds without it."""

from __future__ import annotations

import pytest

from actors.simulation.run import run
from actors.simulation.schedule import parse
from tests.simulation.mutants.catalogue import BY_NAME
from tests.simulation.mutants.mutant import mutant

DELETES = mutant(
    "controlled shutdown deletes the followers' logs",
    "controller.md 7.4",
    "actors.core.controller.shutdown:controlled_shutdown",
    "delete=False",
    "delete=True",
    "tests/simulation/test_replication_invariants.py",
)

BROKEN_DISK = """
records yes
2 create a 0,1,2 0,1,2 0,2,1 0,1,2
6 burst a 0 5 100
8 break 0 0 for inf
10 burst a 0 5 100
10 burst a 1 5 100
"""

CASES: dict[str, tuple[str, str]] = {
    "ISR expands without a look at the log end": (
        "new ISR members have the committed records",
        """
        records yes
        set replica_lag_time_max_ms 4000
        set replica_fetch_max_bytes 2048
        2 create a 0,1,2
        4 cut 0 2 for 12
        12 burst a 0 100 1000
        """,
    ),
    "ISR does not shrink": (
        "lagging replicas leave the ISR",
        """
        records yes
        set replica_lag_time_max_ms 4000
        2 create a 0,1,2
        5 cut 0 2 for 22
        6 burst a 0 5 100
        """,
    ),
    "high watermark moves below min.insync.replicas": (
        "high watermarks need min.insync.replicas",
        """
        records yes
        set min_insync_replicas 2
        2 create a 0,1,2
        6 kill 1 for 20
        6 kill 2 for 20
        6.5 burst a 0 5 100
        """,
    ),
    "acks=all is answered by the leader alone": (
        "acks=all needs min.insync.replicas",
        """
        records yes
        set min_insync_replicas 2
        2 create a 0,1,2
        4 cut 0 1 for 5
        4 cut 0 2 for 5
        6 burst a 0 5 100
        """,
    ),
    "acks=all does not wait for the batch's last record": (
        "acks=all waits for the high watermark",
        """
        records yes
        2 create a 0,1,2
        5 cut 0 1 for 5
        5 cut 0 2 for 5
        6 burst a 0 5 100
        """,
    ),
    "acks=all is taken with too few in-sync replicas": (
        "acks=all needs min.insync.replicas",
        """
        records yes
        set min_insync_replicas 2
        2 create a 0,1,2
        4 kill 1 for 26
        4 kill 2 for 26
        24 burst a 0 5 100
        """,
    ),
    "new leader takes its log end for the high watermark": (
        "consumers read committed records",
        """
        records yes
        2 create a 0,1,2
        8 lag 2 3 for 20
        8.5 burst a 0 20 100
        9 kill 0 for 20
        """,
    ),
    "deletion ends before the brokers have answered": (
        "deleted topics leave no logs",
        "2 create a 0,1\n4 slow 0 1 2 for 10\n5 delete a",
    ),
    "assignments are given out before they are in the log": (
        "groups answer what their log has",
        "1 join g 0\n1 join g 1",
    ),
    "commits are answered before they are in the log": ("groups answer what their log has", "1 join g 0"),
    "topics are deleted without the fence": (
        "only the active controller changes topics",
        "2 create a 0,1\n4 slow 0 1 1 for 20\n5 delete a\n6.5 fence",
    ),
    "automatic preferred election runs once": (
        "preferred leaders are looked for",
        "set leader_imbalance_check_interval_seconds 3\n2 create a 0,1",
    ),
    "clean shutdown marker stays while logs are written": (
        "directories in use have no clean shutdown marker",
        "2 create a 0,1,2\n6 roll 0 for 3",
    ),
    "commit of an unknown member is accepted": (
        "stale requests are refused",
        "1 join g 0\n2 create a 0,1\n"
        "12 send-group OffsetCommit:group_id=@group;generation_id=1;member_id=stranger a 0 g",
    ),
    "heartbeat does not reset the session time-out": ("active members stay in the group", "1 join g 0\n1 join g 2"),
    "leaving member stays": ("silent members leave the group", "1 join g 0\n1 join g 1\n12 leave g 1"),
    "log start offset does not reach followers": (
        "logs of the ISR are identical",
        "records yes\n2 create a 0,1,2\n6 burst a 0 20 100\n12 delete-records a 0",
    ),
    "markers of an older coordinator are taken": (
        "stale requests are refused",
        "records yes\n2 create x 0,1 0,1 0,1\n6 send-data WriteTxnMarkers x 2 g0\n"
        "7 send-data WriteTxnMarkers:coordinator_epoch=4 x 2 g0",
    ),
    "new partition's ISR has dead replicas": (
        "new partitions have live ISR members",
        "6 kill 2 for 28\n30 create a 0,2",
    ),
    "controlled shutdown outlives the registration": ("controller context matches ZooKeeper", "6 roll 2 for 5"),
    DELETES.name: ("only unassigned replicas are deleted", "2 create a 0,1,2\n50 roll 2 for 5"),
    "controlled shutdown leaves followers in the ISR": (
        "brokers leave the ISR before they stop",
        "2 create a 0,1,2\n6 roll 2 for 5",
    ),
    "fetches of an older leader epoch are served": (
        "stale requests are refused",
        """
        records yes
        2 create a 0,1,2
        4 slow 1 2 0.5 for 10
        5 lag 2 1.0 for 10
        6 ask-reassign a 0 0,1
        7 ask-reassign a 0 0,1,2
        """,
    ),
    "silent member is not removed": (
        "silent members leave the group",
        "1 join g 0\n1 join g 1\n12 fall-silent g 1",
    ),
    "offsets are not loaded": (
        "fetched offsets were committed",
        "1 join g 0\n10 roll 0 for 3\n16 roll 1 for 3\n22 roll 2 for 3\n26 join g 1",
    ),
    "leaders are not elected when a broker dies": (
        "leaders are elected in time",
        "2 create a 0,1,2\n6 kill 0 for 26",
    ),
    "consumers read beyond the high watermark": (
        "consumers read committed records",
        """
        records yes
        2 create a 0,1,2
        8 cut 0 1 for 20
        8 cut 0 2 for 20
        8.5 burst a 0 20 100
        17 kill 0 for 10
        """,
    ),
    "markers count before they are replicated": (
        "unfinished transactions are unstable",
        "records yes\n2 create x 0,1,2 1,2,0 2,0,1 0,2,1\n4 transact id0 for 20\n5 slow 0 1 0.3 for 15",
    ),
    "open transactions are lost with a clean shutdown": (
        "unfinished transactions are unstable",
        """
        seed 4
        records yes
        2 create x 0 1 2 0
        4 transact id0 for 28
        4 transact id1 for 28
        4 slow 0 1 0.2 for 28
        8 roll 0 for 3
        14 roll 1 for 3
        20 roll 2 for 3
        """,
    ),
    "aborted transactions end with their segment": (
        "readers hear of aborted transactions",
        """
        seed 2
        records yes
        set log_segment_bytes 4096
        2 create x 0 1 2 0
        4 transact id0 for 28
        4 transact id1 for 28
        """,
    ),
    "follower truncates to its high watermark, not by epoch": (
        "replicas of the ISR keep committed records",
        "records yes\n2 create a 0,1,2\n6 burst a 0 20 100\n6.5 move-controller\n7 kill 0 for 10",
    ),
    "log start offset is forgotten at a restart": (
        "log start offsets survive restarts",
        "records yes\n2 create a 0,1,2\n6 burst a 0 20 100\n8 delete-records a 0\n19 kill 0 for 3",
    ),
    "recovery point is ahead of what is durable": (
        "recovery points are durable",
        "records yes\n2 create a 0,1,2\n6 burst a 0 20 100",
    ),
    "transactional batches need no transactional id": (
        "transactional records have a transactional id",
        "records yes\n2 create x 0,1,2\n"
        "6 send-transactions Produce:attributes=16;producer_id=5;producer_epoch=0;base_sequence=0 x 0 g0",
    ),
    "deleted replica cannot be forgotten": ("valid state changes are made", "2 create a 0,1,2\n6 delete a"),
    "failed log directory of an answer is ignored": ("partitions with a live ISR member have a leader", BROKEN_DISK),
    "controller is not notified of a lost log directory": (
        "partitions with a live ISR member have a leader",
        BROKEN_DISK,
    ),
    "follower's log end never falls for its leader": (
        "new ISR members have the committed records",
        """
        brokers 2
        seed 83
        steady no
        records yes
        set replica_fetch_wait_max_ms 2000
        0.000 join g1 3
        2.984 send-transactions WriteTxnMarkers:as=coordinator t0 1 g0
        3.084 crash 1 for 0.001
        """,
    ),
    "won election with a lost answer counts as lost": (
        "elected controllers begin their term",
        """
        seed 1
        6 lose-responses 0 for 3
        6 lose-responses 1 for 3
        6 lose-responses 2 for 3
        6.5 move-controller
        """,
    ),
    "changes during a lost connection are missed": (
        "partitions with a live ISR member have a leader",
        "6 cut 1 zk for 4.8\n6.3 create a 0,1,2",
    ),
    "failed deletion of a replica counts as done": (
        "deleted topics leave no logs",
        "records yes\n2 create a 0,1,2 1,2,0 2,0,1\n20 break 0 0 for 8\n20.001 delete a",
    ),
    "UpdateMetadata of a started broker to the others is forgotten": (
        "live brokers are propagated",
        "0 kill 1 for 2\n2.5 create a 0",
    ),
    "a moved last stable offset wakes no delayed fetch": (
        "waiting fetches end when there is data",
        "records yes\n2 create x 0 1 2 0\n4 produce x 0 for 20\n4 transact worker for 20",
    ),
    "group that is being loaded answers as if it were empty": (
        "coordinators know the members",
        "seed 2\n1 join g0 0\n1 join g0 2\n1 join g1 0\n1 join g1 2\n8 swamp 0 for 20",
    ),
}
"""A mutant -> the invariant that it violates, and a schedule that shows the violation."""


@pytest.mark.parametrize("name", CASES)
def test_an_invariant_is_violated_with_its_bug_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    invariant, lines = CASES[name]
    schedule = parse(f"brokers 3\nduration 34\nsteady yes\n{lines}")
    without = run(schedule)
    assert without.violation is None, without.violation
    (DELETES if name == DELETES.name else BY_NAME[name]).apply(monkeypatch)
    violation = run(schedule).violation
    assert violation is not None and violation.invariant == invariant, violation


LEGAL = {
    "the server deletes /controller of a killed node while the next process of this node connects": """
        brokers 3
        seed 19
        duration 14.833
        records no
        validated yes
        steady no
        set replica_fetch_wait_max_ms 100
        clock 1 0.99
        0.100 join g1 2
        0.100 join g1 3
        2.626 kill 1 for 4.000
        2.626 cut 2 0 for 8.000
        8.927 kill 0 for 5.904
        11.833 swamp 0 for 4.000
    """,
    "a replica enters the ISR with the log up to the high watermark, which a small ISR has kept back": """
        brokers 3
        duration 40
        steady yes
        records yes
        set min_insync_replicas 2
        set replica_lag_time_max_ms 4000
        distance 0 1 0.9
        2 create a 0,1
        8 kill 1 for 24
        8.1 burst a 0 10 100
    """,
    "a coordinator without ZooKeeper answers OffsetFetch from its cache while the next one has a later offset": """
        brokers 3
        seed 161
        duration 54.182
        records yes
        validated yes
        steady no
        latency 0.002
        0.000 create x 1,0 1,2
        0.000 create t6 1
        0.000 create t4 1
        0.000 create t0 2
        0.100 create t5 1
        0.200 transact id0 for 7.500
        0.200 join g1 0
        5.280 transact id0 for 4.000
        5.380 mute zk 1 for inf
        21.777 transact worker for 1.000
        21.877 expire 2
    """,
    "a leader commits alone as soon as a reassignment leaves it the only replica, before the znode says so": """
        brokers 3
        seed 28
        duration 8.1
        records yes
        validated yes
        steady no
        0.000 create t4 2 2 1,2,0
        0.000 configure t4 min.insync.replicas=2
        0.000 pause 1 for 13.950
        0.100 kill 0 for inf
        8.100 reassign-again t4 2 1 2 2
        """,
    "a leader adds a follower to the ISR while the controller handles its controlled shutdown": """
        brokers 3
        seed 49
        duration 10.899
        records no
        validated yes
        steady no
        latency 0.002
        set log_flush_offset_checkpoint_interval_ms 3000
        set group_initial_rebalance_delay_ms 0
        set max_incremental_fetch_session_cache_slots 1
        clock 1 1.001
        distance 1 2 0.1
        1.000 create x 1,0,2 2,0,1
        1.594 create t6 1,0,2 0,2,1
        1.665 create t4 1,0,2
        1.950 create t1 1
        1.950 create t5 1,0,2
        2.000 join g0 0
        2.000 join g0 2
        2.000 join g0 3
        2.000 join g1 0
        2.000 join g1 2
        2.000 join g1 3
        2.875 swamp 2 for 8.000
        """,
    "a leader that loses its last writes by a power failure loses the end of a transaction": """
        brokers 2
        seed 27
        duration 1.1
        records yes
        validated yes
        steady no
        0.100 create x 1 1
        0.100 create t2 0
        0.100 create t1 0
        0.100 transact worker for 0.500
        1.100 crash 0 for 0.001
        """,
    "an order decided on an older state is answered without an error, and ignored": """
        brokers 4
        seed 13
        duration 0
        0 create t6 0
        0 send-stale LeaderAndIsr:controller_epoch-1,StopReplica:partition=@partition;leader_epoch-1 t6 0 g1
        0 send-stale LeaderAndIsr:as=old-follower,LeaderAndIsr:as=old-leader t6 0 g1
        """,
    "a controller that finds a queued topic with an absent replica does not begin to delete it": """
        brokers 5
        seed 110
        duration 8
        records no
        validated yes
        latency 0.02
        0 create t4 0,1
        8 cut 1 zk for inf
        8 delete t4
        """,
    "a leader raises the high watermark for fetches of followers that have deleted their logs meanwhile": """
        brokers 3
        duration 12
        seed 2
        records yes
        set min_insync_replicas 2
        steady yes
        2 create a 0,1,2
        4 lag 0 0.5 for 6
        6 burst a 0 5 100
        7.1 delete a
        """,
    "a deleted group has no offsets": """
        brokers 2
        seed 27
        duration 13.992
        records no
        validated yes
        0 join g1 2
        8 pause 0 for 8
        8 send-group OffsetCommit:group_id=@group,own-group,LeaveGroup:group_id=,DeleteGroups:as=deleter t0 0 g1
        """,
    "a leader adds a replica to the ISR that a new reassignment has just removed": """
        brokers 4
        seed 96
        duration 37.001
        records no
        validated yes
        latency 0.002
        1 create t3 1,0
        1.047 create t4 1
        37.001 reassign-again t4 0 2,0 3 2
        """,
    "a leader whose topic was removed and created by hand cannot write the ISR": """
        brokers 2
        seed 68
        duration 27.887
        records yes
        validated yes
        latency 0.02
        0 create t7 1,0 0,1 0,1
        0 create t4 1,0
        7.478 grow t7 0,1 0,1
        8.478 remake t7 1,0 0,1 0,1 0,1 0,1 for 15.000
        8.478 crash 0 for 0.001
        """,
    "a leader acknowledges a record while its topic is being deleted": """
        brokers 4
        seed 7
        duration 2.714
        records yes
        validated yes
        set min_insync_replicas 2
        0 create t5 3 2 2,3
        0.1 produce t5 2 for 4
        2.588 pause 2 for 0.125
        2.688 recreate t5 1
        """,
    "new replicas of a reassignment stay in NewReplica until all of them are in the ISR": """
        brokers 5
        seed 17
        duration 0.1
        records yes
        validated yes
        0 create t0 4 1
        0 cut 3 1 for inf
        0.1 reassign t0 1 1,2,3
        """,
    "a member stays with a coordinator that has lost ZooKeeper, and whose log times out": """
        brokers 3
        seed 162
        duration 48.604
        records no
        validated yes
        0.000 create t7 1
        0.000 join g0 2
        8.000 zookeeper-slow for 19.960
        13.046 mute 2 zk for inf
        20.654 pause 1 for 7.316
        """,
    "a member stays with a coordinator that the controller does not reach": """
        brokers 3
        seed 118
        duration 27.881
        records yes
        validated yes
        0.000 join g1 3
        0.000 cut 2 0 for inf
        8.000 mute zk 2 for 18.285
        8.000 partition 0,zk 1 for 11.602
        """,
    "a member stays with a coordinator that does not receive the controller's requests": """
        brokers 3
        seed 183
        duration 45.2
        records yes
        validated yes
        0.000 create t2 0
        0.000 join g1 3
        0.000 mute 1 0 for inf
        6.150 partition 1,zk 0,2 for 14.619
        """,
    "a broker without ZooKeeper names a former coordinator of a group": """
        brokers 3
        seed 51
        duration 11.795
        records yes
        validated yes
        0.000 create t2 1
        0.000 create t7 2
        0.100 join g0 0
        0.100 join g0 2
        0.100 join g0 3
        0.100 join g1 0
        0.200 mute zk 0 for inf
        6.870 roll 1 for 0.001
        """,
    "a broker that was disconnected keeps metadata of a partition that its topic no longer has": """
        brokers 5
        seed 0
        duration 7.746
        records yes
        validated yes
        0 create t3 1 0
        1 pause 2 for 8.000
        1 recreate t1 2
        4.445 recreate t3 1
        """,
    "brokers keep metadata of a topic whose deletion waits for a broker that is gone": """
        brokers 3
        seed 20398
        duration 0.1
        records yes
        validated yes
        0 create t3 2
        0.1 kill 2 for inf
        0.1 recreate t3 1
        """,
    "a coordinator that a slow disk has stalled removes members before it reads their requests": """
        brokers 3
        seed 23439
        duration 15.708
        records yes
        validated yes
        steady no
        0.100 create x 1 1 0,2,1 1
        0.200 create t4 1
        0.200 create t7 0,1
        0.200 join g0 3
        0.200 join g1 0
        0.200 join g1 2
        1.200 pause 2 for 8.000
        3.733 mute 0 zk for 8.000
        11.625 clog 1 1 for 2.000
        12.625 burst t7 0 100 300
        """,
    "a follower that lost its only record in a power failure reads it again before it has lagged for too long": """
        brokers 3
        seed 20980
        duration 22.523
        records yes
        validated yes
        steady no
        latency 0.02
        distance 0 1 0.1
        0.000 transact worker for 0.001
        21.673 crash 1 for 1.000
        """,
    "a full group removes a member that joins again, and a commit that was waiting is answered later": """
        brokers 3
        seed 24276
        duration 12.986
        records yes
        validated yes
        steady no
        set replica_fetch_response_max_bytes 8192
        distance 0 1 0.1
        4.000 create x 0,1,2 2,1,0 0,1,2 0,2,1
        4.299 create t5 2,0,1
        4.680 create t7 2,1,0 1,2 0 1,0,2
        4.799 create t6 2 0,1,2 2,0 2,0,1
        4.939 create t1 1,2,0
        5.000 produce x 0 for 8.000
        5.000 transact id0 for 8.000
        5.000 transact id1 for 8.000
        5.000 transact worker for 8.000
        5.000 join g0 0
        5.000 join g0 1
        5.000 join g0 2
        5.000 join g1 1
        5.000 join g1 2
        5.711 swamp-group g1 t5
        11.868 strand t5 0 for 1.844
        12.986 swamp-group g0 t6
        """,
    "each replica deletes expired records when its own retention check is due": """
        brokers 2
        seed 51
        duration 60
        records no
        validated yes
        0 create t4 0,1
        25 roll 1 for 1
        34 send-data Produce:first_timestamp=0;max_timestamp=0 t4 0 g1
        """,
    "a transaction's markers do not reach a leader that its coordinator cannot send to": """
        brokers 4
        seed 5
        duration 33.119
        records yes
        validated yes
        steady no
        0.000 create x 2 3 1
        0.000 create t0 1
        0.000 create t5 0
        0.000 create t2 2
        0.000 create t7 3
        0.000 transact id0 for 10.000
        8.000 mute 2 1 for inf
        """,
    "an offset commit that timed out is in the log of its group and not in memory, after a partition": """
        brokers 4
        seed 7
        duration 10.442
        records yes
        validated yes
        steady no
        0.000 create x 0 3 0
        0.000 break 2 1 for 0.015
        0.100 join g1 1
        0.200 transact id1 for 0.500
        8.200 partition 1,2 0,3 for 4.000
        """,
    "an offset commit that timed out is in the log of its group and not in memory, after a kill": """
        brokers 3
        seed 10
        duration 18.035
        records yes
        validated yes
        steady no
        set zookeeper_session_timeout_ms 12000
        0.000 create x 1 2
        0.608 create t5 0
        0.608 transact worker for 0.500
        0.608 join g0 1
        8.608 kill 2 for 0.001
        """,
    "a broker that has deleted its replica creates it again for a leader": """
        brokers 3
        seed 56
        duration 14.265
        records no
        validated yes
        steady no
        0.100 ask-create t0 1,2,0 1,0,2
        0.200 kill 1 for 0.001
        3.087 delete t0
        6.265 kill 1 for 8.000
        14.265 send-stale StopReplica:partition=@partition;leader_epoch-1,LeaderAndIsr:leader_epoch-1 t0 1 g1
        14.265 send-stale LeaderAndIsr:partition=bad/name;leader_epoch+1,LeaderAndIsr:controller_epoch-1 t0 1 g1
        14.265 send-stale LeaderAndIsr:as=old-follower t0 1 g1
        """,
    "a group is removed as empty after its commit timed out, and begins again under its name": """
        brokers 4
        seed 100001
        duration 30
        records yes
        validated yes
        steady no
        set zookeeper_session_timeout_ms 12000
        set min_insync_replicas 2
        set auto_leader_rebalance_enable 0
        set leader_imbalance_check_interval_seconds 40
        set controlled_shutdown_max_retries 1
        set num_replica_fetchers 2
        set replica_fetch_response_max_bytes 8192
        set replica_fetch_wait_max_ms 2000
        set log_flush_offset_checkpoint_interval_ms 3000
        set max_incremental_fetch_session_cache_slots 1
        4.000 create x 2,0,3 2,1,0 2 2,3,0
        4.344 create t5 3,1,0 2,1,3
        4.359 create t4 1,3,2
        4.359 configure t4 compression.type=gzip
        4.602 create t2 2
        4.699 create t7 1 0,1,2 3,2,1
        5.000 produce x 0 for 30.000
        5.000 transact id1 for 30.000
        5.000 transact worker for 30.000
        5.000 join g0 1
        5.000 join g0 2
        5.000 join g0 3
        5.000 join g1 0
        5.000 join g1 1
        5.000 join g1 2
        5.912 send-group own-group,Heartbeat,DescribeGroups,OffsetCommit,FindCoordinator:key_type=7 t5 0 g0
        5.912 send-group OffsetDelete:partition=absent t5 0 g0
        6.241 kill 2 for 13.888
        8.264 ask-create t6 1,3,0 3,0,1 0,3,1
        12.665 produce t2 0 for 32.073
        15.174 slow 1 zk 2 for 19.667
15.609 send-group FindCoordinator,OffsetDelete:partition=absent t4 0 g1
15.609 send-group SyncGroup:as=follower;version=5;protocol_type=consumer;protocol_name=other,Heartbeat t4 0 g1
15.609 send-group Heartbeat:as=member,OffsetCommit:committed_metadata=long t4 0 g1
        """,
    "a broker does not learn that it was elected before another client raises the epoch": """
        brokers 3
        seed 3425
        duration 8.2
        records yes
        validated yes
        steady no
        0.100 crash 1 for 1.000
        8.100 lose-responses 1 for 0.007
        8.100 move-controller
        8.200 fence
        """,
}
"""Behaviour that Kafka also has -> a schedule that leads to it."""

MENDED = {
    "a leader adds a replica while its reassignment is cancelled, and dies": """
        brokers 2
        seed 133
        duration 52.518
        records no
        validated yes
        set replica_fetch_wait_max_ms 100
        0.100 create t7 0,1 1,0
        0.481 create t5 0,1
        0.618 create t3 0 1,0
        1.081 join g0 2
        1.081 join g1 0
        1.081 join g1 1
        1.081 join g1 2
        1.715 send-admin CreateDelegationToken,CreateTopics:topics=twice,moving-topic t3 0 g1
        1.715 send-admin Metadata:topics=absent,IncrementalAlterConfigs:value=soon t3 0 g1
        1.715 send-admin CreateTopics:assignments=;num_partitions=1;replication_factor=90 t3 0 g1
        52.518 kill 0 for 0.001
        """,
    "the controller moves while a reassignment is cancelled whose new replica has joined the ISR": """
        brokers 4
        seed 3246
        duration 8.378
        records yes
        validated yes
        steady no
        latency 0.02
        set zookeeper_session_timeout_ms 4000
        set min_insync_replicas 2
        set replica_fetch_response_max_bytes 8192
        set replica_fetch_wait_max_ms 100
        0.000 create t1 3
        8.000 send-admin Metadata:topics=null;version=0,moving-topic t1 0 g0
        8.378 move-controller
        """,
    "a slow broker removes a replica, adds it again and deletes it with its topic": """
        brokers 3
        seed 8402
        duration 13.439
        records yes
        validated yes
        steady no
        0.100 create x 1
        0.200 create t6 0
        3.412 kill 1 for 0.001
        11.412 lag 1 1 for 2.000
        12.412 reassign-again t6 0 2,1 2 1
        12.512 delete t6
        """,
}
"""A fixed bug that a seed found -> the schedule that showed it."""


@pytest.mark.parametrize("what", LEGAL)
def test_an_invariant_allows_what_kafka_does_too(what: str) -> None:
    assert run(parse(LEGAL[what])).violation is None, what


@pytest.mark.parametrize("what", MENDED)
def test_a_mended_fault_stays_mended(what: str) -> None:
    assert run(parse(MENDED[what])).violation is None, what
