"""LogCleanerManagerActor has compacted logs cleaned, the dirtiest first; its LogCleanerActors do the work in slices.

`actors.core.broker.log_cleaner` makes the decisions, `actors.storage.log.cleaner` changes the files. A cleaning changes
no offset, so the actor of the partition is not involved.

Rule 1: a complete cleaning is followed by the next one at once. If nothing is dirty, or a cleaning was aborted, the
        manager looks again after `log.cleaner.backoff.ms`.
Rule 2: the number of cleaners is `log.cleaner.threads`. A changed number or other setting acts from the next cleaning.
Rule 3: a disk error takes the log directory offline, as errors of other reads and writes do.

Kafka: `LogCleaner`, `CleanerThread`.
"""

from __future__ import annotations

import logging

from thespian.actors import ActorAddress, ChildActorExited, WakeupMessage

from actors.core.broker.log_cleaner import STEPS, Compaction, DirtyLog, LogCleaner, pause
from actors.runtime import Dispatcher, FlowActor
from actors.storage.log import NO_DESCRIPTORS
from messages import log_cleaner
from messages.broker import BrokerConfigured, LogFileFailed
from messages.flow.conversation import Flow, Pause
from messages.metrics import Gauges
from messages.node import StartLogCleaner
from messages.probes import probe
from messages.vocabulary import Message

log = logging.getLogger("kafka.log.LogCleaner")

LOGS_AT_ONCE = 500
"""Maximum number of logs that are measured before other actors get their turn."""
BACKOFF, STABLE = "backoff", "stable"
"""Names of timers."""
STABLE_SECONDS = 0.02
"""Interval of the checks whether a log that is to be cleaned is stable."""


class LogCleanerManagerActor(FlowActor):
    """This actor chooses the logs to be cleaned; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._cleaner: LogCleaner
        self._replica_manager: ActorAddress
        self._metrics: ActorAddress | None
        self._free: list[ActorAddress] = []
        """LogCleanerActors without work."""
        self._compactions: list[Compaction] = []
        """CompactTopic requests without a reply."""

    def receiveMsg_StartLogCleaner(self, message: StartLogCleaner, sender: ActorAddress) -> None:
        """Look for dirty logs after the back-off, unless `log.cleaner.enable` is false."""
        self._cleaner = LogCleaner(message.settings)
        self._replica_manager, self._metrics = message.replica_manager, message.metrics
        self._back_off()

    def receiveMsg_BrokerConfigured(self, message: BrokerConfigured, sender: ActorAddress) -> None:
        """Use other settings from the next cleaning on."""
        self._cleaner.settings = message.settings

    def receiveMsg_LogFileFailed(self, message: LogFileFailed, sender: ActorAddress) -> None:
        """Pass a disk error of a cleaner to the replica manager (rule 3)."""
        self.send(self._replica_manager, message)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Count a cleaner that has ended, as each does at the end of the node."""
        self._cleaner.dead += 1

    def flow(self, message: Message) -> Flow[None] | None:
        """Look for dirty logs, at a timer or when a cleaner has ended its work."""
        match message:
            case WakeupMessage(payload=payload):
                return self._go_on() if payload == STABLE else self._look()
            case log_cleaner.LogCleaned():
                self._free.append(self.sender)
                self._cleaner.note_end(message)
                for request in self._compactions:
                    if message.path not in self._cleaner.requested:
                        request.note(message)
                return self._go_on() if message.state == log_cleaner.CLEANED or self._compactions else None
            case log_cleaner.CompactTopic(topic, seconds):
                return self._compact(topic, seconds)
        return super().flow(message)

    def _look(self) -> Flow[None]:
        found: list[DirtyLog] = []
        is_enabled = self._cleaner.settings.log_cleaner_enable
        position = 0 if is_enabled else -1
        while position >= 0:
            position, part = self.call_adapter("logs", "dirt", (position, LOGS_AT_ONCE))
            found += [DirtyLog(*row) for row in part]
            if position >= 0:
                yield Pause()
        unstable = {path for request in self._compactions for path in request.unstable}
        for job in self._cleaner.assign(found, unstable):
            self.send(self._free.pop() if self._free else self.createActor(LogCleanerActor), job)
        if is_enabled and self._metrics is not None and (changed := self._cleaner.changed_gauges(found)):
            self.send(self._metrics, Gauges(changed))
        self._back_off()

    def _compact(self, topic: str, seconds: float) -> Flow[None]:
        """End the active segments of a topic's logs, and clean each log once everything before its end is stable."""
        try:
            rows: tuple[tuple[str, bool, int], ...] = self.call_adapter("logs", "roll_compacted", (topic,))
        except OSError as error:
            self.send(self._replica_manager, LogFileFailed(error.filename or "", error.strerror or str(error)))
            rows = ()
        uncleanable = self._cleaner.uncleanable
        logs = {
            path: log_cleaner.CompactedLog(path.rpartition("/")[2], compacted, 0, end, uncleanable.get(path, ""))
            for path, compacted, end in rows
        }
        unstable = dict.fromkeys(path for path, log in logs.items() if log.compacted and log.end and not log.reason)
        self._compactions.append(Compaction(self.sender, logs, self.now + seconds, unstable))
        return self._go_on()

    def _go_on(self) -> Flow[None]:
        """Request the cleaning of logs that are stable now, and reply to requests of which all logs are cleaned."""
        for request in self._compactions:
            stable = [
                path
                for path in request.unstable
                if self.call_adapter("logs", "last_stable", (path,)) >= request.logs[path].end
            ]
            for path in stable:
                del request.unstable[path]
                request.uncleaned[path] = self._cleaner.requested[path] = None
            if self.now >= request.deadline:
                request.unstable.clear()
            if request.is_over:
                self.send(request.asker, log_cleaner.TopicCompacted(tuple(request.logs.values())))
        self._compactions = [request for request in self._compactions if not request.is_over]
        if any(request.unstable for request in self._compactions):
            self.set_timer(STABLE, STABLE_SECONDS, STABLE)
        return self._look()

    def _back_off(self) -> None:
        if self._cleaner.settings.log_cleaner_enable:
            self.set_timer(BACKOFF, self._cleaner.settings.log_cleaner_backoff_ms / 1000)


class LogCleanerActor(Dispatcher):
    """This actor cleans one log at a time, in slices, and sends the result to its manager."""

    def __init__(self) -> None:
        super().__init__()
        self._job: log_cleaner.CleanLog
        self._manager: ActorAddress
        self._began = 0.0

    def receiveMsg_CleanLog(self, message: log_cleaner.CleanLog, sender: ActorAddress) -> None:
        """Begin to clean a log."""
        self._job, self._manager = message, sender
        self._began = self.now
        self._work(begins=True)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Go on with the log."""
        self._work(begins=False)

    def _work(self, begins: bool) -> None:
        job, worked_ms, size, busy = self._job, 0, 0, 0
        figures: tuple[int, ...] = ()
        arguments = job.path, begins, job.slots, job.load_millionths, job.buffer, STEPS
        try:
            state, size, worked_ms, figures, reason, busy = self.call_adapter("logs", "clean", arguments)
        except OSError as error:
            reason = error.strerror or str(error)
            state = log_cleaner.ABORTED if error.errno in NO_DESCRIPTORS else log_cleaner.UNCLEANABLE
            if state == log_cleaner.UNCLEANABLE:
                self.send(self._manager, LogFileFailed(f"{job.path}/", reason))
        if state in (log_cleaner.WORKING, log_cleaner.WAITING):
            rest = pause(worked_ms, size, busy, state == log_cleaner.WAITING, job.bytes_per_second)
            self.wake_at(self.now + worked_ms / 1000 + rest)
            return
        seconds = self.now - self._began + worked_ms / 1000
        if state == log_cleaner.CLEANED:
            probe("a log is cleaned")
            first, end, before, after, records, keys, use = figures
            log.info(
                "%s: cleaned the log (dirty section = [%d, %d)) in %.1f seconds: %d bytes became %d; %d records were"
                " read, and %d keys took %d %% of the offset map",
                *(job.path, first, end, seconds, before, after, records, keys, use),
            )
        else:
            probe("a cleaning is aborted")
            level = logging.ERROR if state == log_cleaner.UNCLEANABLE else logging.INFO
            log.log(level, "%s: the cleaning of the log was aborted: %s", job.path, reason)
        self.send(self._manager, log_cleaner.LogCleaned(job.path, state, figures, reason, seconds))
