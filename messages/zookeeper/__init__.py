"""Requests to the ZooKeeper bridge and their results, which contain no paths, JSON or ZooKeeper operations.

The bridge replies to each request with `Answer(id, result)`. The result is of the type that the request's docstring
names, or a `Failure` (messages.ask). If a request sets a watch, the bridge sets it before it reads. After the next
change of the watched znode, the bridge sends the event of this change to the sender of the request. To be notified
again, the sender repeats the request. If the connection or the session may have lost watches, the bridge sets them
again, and sends the events of all changes in the meantime.

`epoch_zk_version` is the version of /controller_epoch that fences a write: every transaction checks it, and the reply
is Failure("ControllerMoved") if the check fails. If `epoch_zk_version` is None, as for admin tools, the write is not
fenced.

Kafka: the methods of `KafkaZkClient`.
"""

from __future__ import annotations

from messages.zookeeper.acls import *
from messages.zookeeper.brokers import *
from messages.zookeeper.cluster import *
from messages.zookeeper.configs import *
from messages.zookeeper.controller import *
from messages.zookeeper.delegation_tokens import *
from messages.zookeeper.leader_elections import *
from messages.zookeeper.notifications import *
from messages.zookeeper.partition_states import *
from messages.zookeeper.question import *
from messages.zookeeper.reassignments import *
from messages.zookeeper.topic_deletion import *
from messages.zookeeper.topics import *
