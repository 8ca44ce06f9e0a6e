"""Facts: what the trace of a run says about the cluster, as typed values.

    for fact in facts(run):
        print(fact.place.at, fact)

A fact's `place` has its time in seconds since 1970, the node, the run, the number of the delivery that shows it, and
the event id of this delivery. Facts of one event are joined by that id. Facts of several nodes are joined by
(connection, correlation id) and by (znode, version), which messages contain.

The classes are in `declarations`; modules named `*_facts` read them from the messages of one part of a node.
"""

from messages.facts.run_facts import facts

__all__ = ["facts"]
