"""Mutants of the controller: elections, state machines, deletions, reassignments, channels (controller.md)."""

from __future__ import annotations

from tests.simulation.mutants.mutant import mutant

CORE = "actors.core.controller"
FAILOVER = f"{CORE}.failover"
BROKERS = f"{CORE}.broker_changes"
ELECTIONS = f"{CORE}.elections"
PARTITIONS = f"{CORE}.partition_state_machine"
REPLICAS = f"{CORE}.replica_state_machine"
REASSIGNMENT = f"{CORE}.reassignment"
DELETION = f"{CORE}.topic_deletion:TopicDeletions"
SHELL = "actors.controller.controller:ControllerActor"
CHANNEL = "actors.controller.channel:BrokerChannelActor"

LIFE_TESTS = "tests/controller/test_life.py"
ELECTION_TESTS = "tests/core/controller/test_elections.py"
CANDIDATE_TESTS = "tests/controller/test_election.py"
BROKER_TESTS = "tests/controller/test_brokers.py"
PARTITION_TESTS = "tests/core/controller/test_partition_moves.py"
REPLICA_TESTS = "tests/core/controller/test_replica_moves.py"
REASSIGNMENT_TESTS = "tests/controller/test_reassignment.py"
TOPIC_TESTS = "tests/controller/test_topics.py"
DELETION_TESTS = "tests/controller/test_deletion_table.py"
CHANNEL_TESTS = "tests/controller/test_channel.py"
BATCH_TESTS = "tests/core/controller/test_batch.py"

MUTANTS = (
    # ---------------------------------------------------------------------------------------------------------- terms
    mutant(
        "controller whose znode is gone stays active",
        "controller.md 7.1",
        f"{FAILOVER}:elect",
        "if (current.broker_id, current.epoch) == (context.broker_id, context.epoch):",
        "if True:",
        CANDIDATE_TESTS,
    ),
    mutant(
        "fenced controller does not resign",
        "controller.md 7.1, KAFKA-6082",
        f"{SHELL}.event_failed",
        "return self._observed(event, ControllerState.CONTROLLER_CHANGE, failover.deposed(self.context))",
        "return None",
        "tests/controller/test_zombies.py",
    ),
    mutant(
        "resigned controller's channels stay open",
        "controller.md 7.3",
        f"{FAILOVER}:resign",
        "yield CloseAllChannels()",
        "yield from ()",
        CANDIDATE_TESTS,
    ),
    mutant(
        "new controller sends no UpdateMetadata before LeaderAndIsr",
        "controller.md 7.2",
        f"{FAILOVER}:_begin",
        "yield from announce(context)",
        "yield from ()",
        LIFE_TESTS,
    ),
    mutant(
        "new controller does not continue reassignments",
        "controller.md 7.2, 7.7",
        f"{FAILOVER}:_begin",
        "yield from reassignment.begin(context)",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "new controller does not continue deletions",
        "controller.md 7.2, 6.1",
        f"{FAILOVER}:_begin",
        "yield from deletion_steps.resume(context)",
        "yield from ()",
        TOPIC_TESTS,
    ),
    mutant(
        "new controller does not look for requested elections",
        "controller.md 7.2, 7.6",
        f"{CORE}.leader_balance:begin",
        "yield from requested(context, PreferredReplicaLeaderElection())",
        "yield from ()",
        "tests/controller/test_leader_balance.py",
    ),
    # -------------------------------------------------------------------------------------------------------- brokers
    mutant(
        "UpdateMetadata to a started broker is forgotten",
        "controller.md 7.5",
        f"{BROKERS}:on_broker_startup",
        "yield from announce(context, ids, known)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "UpdateMetadata of a started broker to the others is forgotten",
        "controller.md 7.5",
        f"{BROKERS}:on_broker_startup",
        "yield from announce(context, existing)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "roles of a started broker are not sent",
        "controller.md 7.5",
        f"{BROKERS}:replicas_came_online",
        "yield from move_replicas(context, hosted, ReplicaState.ONLINE)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "leaderless partitions are not elected for when a broker starts",
        "controller.md 7.5",
        f"{BROKERS}:on_broker_startup",
        "yield from trigger_online(context)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "reassignments do not resume when a broker starts",
        "controller.md 7.5, 7.7",
        f"{BROKERS}:on_broker_startup",
        "yield from reassignment.resume(context, ids)",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "deletions do not resume when a broker starts",
        "controller.md 7.5, 6.1",
        f"{BROKERS}:on_broker_startup",
        ("if context.queued:\n        yield from deletion_steps.resume"),
        ("if False:\n        yield from deletion_steps.resume"),
        TOPIC_TESTS,
    ),
    mutant(
        "leaders are not elected when a broker dies",
        "controller.md 7.5",
        f"{BROKERS}:on_replicas_become_offline",
        "yield from trigger_online(context)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "dead broker's replicas stay online",
        "controller.md 7.5",
        f"{BROKERS}:on_replicas_become_offline",
        "moved = yield from move_replicas(context, lost, ReplicaState.OFFLINE, settled=elected, where=is_kept)",
        "moved = 1",
        BROKER_TESTS,
    ),
    mutant(
        "controlled shutdown outlives the registration",
        "controller.md 7.4",
        f"{CORE}.context:ControllerContext.remove_broker",
        "self.shutting_down.pop(broker_id, None)",
        "pass",
        BROKER_TESTS,
    ),
    mutant(
        "controlled shutdown of an older broker epoch is obeyed",
        "controller.md 7.4, KIP-380",
        f"{CORE}.shutdown:controlled_shutdown",
        "if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker.epoch:",
        "if False:",
        BROKER_TESTS,
    ),
    mutant(
        "controlled shutdown leaves followers in the ISR",
        "controller.md 7.4",
        f"{CORE}.shutdown:controlled_shutdown",
        "yield from move_replicas(context, {broker_id: followed}, ReplicaState.OFFLINE)",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "failed log directory of an answer is ignored",
        "controller.md 1.4",
        f"{CORE}.responses:leader_and_isr_answered",
        "if lost:",
        "if False:",
        BROKER_TESTS,
    ),
    # ------------------------------------------------------------------------------------------------------ elections
    mutant(
        "preferred leader is chosen from dead replicas",
        "controller.md 3.2",
        f"{ELECTIONS}:preferred",
        "head in c.online and head in c.isr",
        "head in c.isr",
        ELECTION_TESTS,
    ),
    mutant(
        "preferred leader is chosen outside the ISR",
        "controller.md 3.2",
        f"{ELECTIONS}:preferred",
        "head in c.online and head in c.isr",
        "head in c.online",
        ELECTION_TESTS,
    ),
    mutant(
        "unclean election where it is not allowed",
        "controller.md 3.2",
        f"{ELECTIONS}:offline",
        "if c.unclean and recipients:",
        "if recipients:",
        ELECTION_TESTS,
    ),
    mutant(
        "offline election takes a dead member of the ISR",
        "controller.md 3.2",
        f"{ELECTIONS}:offline",
        "for replica in recipients:",
        "for replica in c.replicas:",
        ELECTION_TESTS,
    ),
    mutant(
        "reassignment elects a dead replica",
        "controller.md 3.2, 7.7",
        f"{ELECTIONS}:reassign",
        "replica in c.online and replica in c.isr",
        "replica in c.isr",
        ELECTION_TESTS,
    ),
    mutant(
        "broker that shuts down stays in the ISR of its successors",
        "controller.md 3.2, 7.4",
        f"{ELECTIONS}:controlled_shutdown",
        "staying = tuple(r for r in c.isr if r not in c.shutting_down)",
        "staying = tuple(c.isr)",
        ELECTION_TESTS,
    ),
    mutant(
        "broker that shuts down is elected",
        "controller.md 3.2, 7.4",
        f"{ELECTIONS}:controlled_shutdown",
        "replica in c.isr and replica not in c.shutting_down",
        "replica in c.isr",
        ELECTION_TESTS,
    ),
    # ------------------------------------------------------------------------------------------------- state machines
    mutant(
        "leader epoch is not raised at an election",
        "controller.md 3.2",
        f"{PARTITIONS}:elect",
        "states[partition].leader_epoch + 1",
        "states[partition].leader_epoch",
        PARTITION_TESTS,
    ),
    mutant(
        "new partition's ISR has dead replicas",
        "controller.md 3.1",
        f"{PARTITIONS}:create",
        "replicas if r in online]",
        "replicas]",
        PARTITION_TESTS,
    ),
    mutant(
        "leader epoch is not raised when a replica leaves the ISR",
        "controller.md 3.3",
        f"{REPLICAS}:_without",
        "state.leader_epoch + 1",
        "state.leader_epoch",
        REPLICA_TESTS,
    ),
    mutant(
        "last member leaves the ISR",
        "controller.md 3.3",
        f"{REPLICAS}:_without",
        "state.isr if len(state.isr) == 1 else tuple",
        "tuple",
        REPLICA_TESTS,
    ),
    mutant(
        "replica that goes offline remains leader",
        "controller.md 3.3",
        f"{REPLICAS}:_without",
        "NO_LEADER if state.leader == broker_id else state.leader",
        "state.leader",
        REPLICA_TESTS,
    ),
    mutant(
        "StopReplica of a deletion only stops",
        "controller.md 3.3, 6.1",
        f"{REPLICAS}:start_deletion",
        "delete=True",
        "delete=False",
        REPLICA_TESTS,
    ),
    mutant(
        "refused write of a state is not tried again",
        "controller.md 2.5, trap T2",
        f"{CORE}.leadership:write_states",
        "elif result.code == BAD_VERSION or as_known:",
        "elif False:",
        REPLICA_TESTS,
    ),
    mutant(
        "UpdateMetadata of a new leader is forgotten",
        "controller.md 4",
        f"{CORE}.batch:RequestBatch.add_leader_and_isr",
        "self._metadata_partitions[partition] = None",
        "pass",
        BATCH_TESTS,
    ),
    mutant(
        "deleted replica cannot be forgotten",
        "controller.md 3.3",
        f"{REPLICAS}:TABLE",
        "Transition(_R.NON_EXISTENT, (_R.DELETION_SUCCESSFUL,), forget)",
        "Transition(_R.NON_EXISTENT, (_R.DELETION_STARTED,), forget)",
        REPLICA_TESTS,
    ),
    # ------------------------------------------------------------------------------------------------------ deletions
    mutant(
        "deletion takes offline replicas for reachable",
        "controller.md 6.1",
        f"{DELETION}._resume",
        "steps += yield from self._begin(eligible, frozenset(offline))",
        "steps += yield from self._begin(eligible, frozenset())",
        DELETION_TESTS,
    ),
    mutant(
        "deletion ends before the brokers have answered",
        "controller.md 6.1",
        f"{DELETION}._resume",
        "if len(record.successful) == len(record.replicas):",
        "if len(record.successful) + len(record.started) == len(record.replicas):",
        DELETION_TESTS,
    ),
    mutant(
        "ineligible topic stays so when its broker starts",
        "controller.md 6.1",
        f"{DELETION}.resume",
        "self.ineligible.pop(topic, None)",
        "pass",
        DELETION_TESTS,
    ),
    mutant(
        "failed deletion of a replica counts as done",
        "controller.md 6.1",
        f"{CORE}.responses:replicas_deleted",
        "if error.error_code != NONE}",
        "if False}",
        TOPIC_TESTS,
    ),
    mutant(
        "StopReplica's error as a whole is ignored",
        "controller.md 6.1, trap T6",
        f"{CORE}.responses:replicas_deleted",
        "failed = concerned if event.error_code else [",
        "failed = [] if event.error_code else [",
        TOPIC_TESTS,
    ),
    mutant(
        "topic that is reassigned is deleted without ending that",
        "controller.md 6.1, trap T1",
        f"{CORE}.topic_changes:deletion_requested",
        "yield from reassignment.end_for_deletion(context, known)",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    # -------------------------------------------------------------------------------------------------- reassignments
    mutant(
        "reassignment does not wait for the ISR",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_caught_up",
        "(tp in isrs and set(target_replicas(context.assignments[tp])) <= set(isrs[tp]))",
        "tp in isrs",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "reassignment does not watch the ISR",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_caught_up",
        "watch=True",
        "watch=False",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "replicas that a reassignment removes are not stopped",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_finish",
        "yield from _delete_replicas(context, removed)",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "replicas that a replaced reassignment added are not stopped",
        "controller.md 7.7, KIP-455",
        f"{REASSIGNMENT}:_reassign",
        "yield from _delete_replicas(context, unneeded)",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "leader outside the target stays",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_leader_stays",
        "return leader in context.assignments[partition].replicas and context.is_online(leader, partition)",
        "return True",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "new replicas do not hear of a reassignment",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_reassign",
        "yield from _raise_epochs(context, waiting, {tp: context.assignments[tp].replicas for tp in waiting})",
        "yield from ()",
        REASSIGNMENT_TESTS,
    ),
    mutant(
        "finished reassignment is not written",
        "controller.md 7.7",
        f"{REASSIGNMENT}:_finish",
        "failures = yield from _write(context, {tp: context.assignments[tp] for tp in partitions})",
        "failures = {}",
        REASSIGNMENT_TESTS,
    ),
    # ------------------------------------------------------------------------------------------------------ the rest
    mutant(
        "automatic preferred election runs once",
        "controller.md 1.5, 7.6",
        f"{CORE}.leader_balance:check",
        "yield Enqueue(event, settings.leader_imbalance_check_interval_seconds)",
        "yield from ()",
        "tests/controller/test_leader_balance.py",
    ),
    mutant(
        "ISR changes are not sent to the brokers",
        "controller.md 1.4",
        f"{CORE}.notifications:isr_changed",
        "yield from announce(context, partitions=dict.fromkeys(known))",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "handled ISR notifications are not deleted",
        "controller.md 1.4",
        f"{CORE}.notifications:isr_changed",
        "yield from ask(DeleteIsrChangeNotifications(changes.names, context.epoch_zk_version))",
        "yield from ()",
        BROKER_TESTS,
    ),
    mutant(
        "unanswered request is not sent again",
        "controller.md 5",
        f"{CHANNEL}.receiveMsg_TransmitFailed",
        "self.set_timer(RESEND, BACKOFF)",
        "pass",
        CHANNEL_TESTS,
    ),
    mutant(
        "unanswered request is dropped",
        "controller.md 5",
        f"{CHANNEL}.receiveMsg_TransmitFailed",
        "self.set_timer(RESEND, BACKOFF)",
        ("self._queue.popleft()\n            self._awaited = None\n            self._send_first()"),
        CHANNEL_TESTS,
    ),
)
"""Mutants of the controller."""
