"""Run scenarios on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from actors.runtime.trace.silence import silent
from actors.simulation.schedule import Schedule
from actors.simulation.simulated_cluster import DOWN, UP, Cluster
from messages.vocabulary import Message
from tests.agreement.cluster import BROKERS, CONTROLLERS, NODES, ROLES, SETTINGS
from tests.agreement.scenario import Play, Scenario
from zk_bridge import paths

FLAGS = {"true": True, "false": False}


class Paper(Cluster):
    """Five nodes that run in virtual time."""

    looks = 0.2

    def __init__(self, place: Path, settings: tuple[tuple[str, str], ...] = ()) -> None:
        described = {name: FLAGS.get(str(value), value) for name, value in {**SETTINGS, **dict(settings)}.items()}
        super().__init__(Schedule(len(NODES), steady=True), place, settings=described)
        for node_id, machine in self.machines.items():
            machine.settings = attrs.evolve(machine.settings, roles=ROLES[node_id in CONTROLLERS])
        for node_id in (*CONTROLLERS, *BROKERS):
            self.start(node_id)
            assert self.until(lambda node=node_id: self.registered(node), 30)  # type: ignore[misc]
        assert self.until(lambda: self.exists(paths.CONTROLLER), 30)

    def kill(self, node_id: int, power: bool = False) -> None:
        """See ScenarioCluster.kill."""
        self.expire(node_id)
        super().kill(node_id, power)

    def registered(self, node_id: int) -> bool:
        """See ScenarioCluster.registered."""
        return self.exists(paths.broker(node_id)) and self.machines[node_id].state != DOWN

    def candidates(self) -> list[int]:
        """See ScenarioCluster.candidates."""
        return [node_id for node_id in CONTROLLERS if self.machines[node_id].state == UP]

    def call(self, node_id: int, request: Message) -> Message | None:
        """See ScenarioCluster.call."""
        answers: list[Message | None] = []
        self.ask(node_id, request, answers.append, 15.0)
        self.run_until(lambda: answers, 20.0)
        return answers[0] if answers else None

    def until(self, good: Callable[[], bool], seconds: float) -> bool:
        """See ScenarioCluster.until."""
        ends = self.now + seconds
        while not good():
            if self.now > ends:
                return False
            self.run(self.looks)
        return True


def check_simulated(scenario: Scenario, place: Path, falling: float | None = None) -> None:
    """Run a scenario on a simulated cluster and compare it with Apache's outcome; see Play.check."""
    with silent():
        cluster = Paper(place, scenario.settings)
        try:
            Play(cluster, scenario).check(falling)
        finally:
            cluster.close()
