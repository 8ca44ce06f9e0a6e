"""Facts: what the trace of a run says about the cluster, as typed values.

    for fact in facts(run):
        print(fact.place.at, fact)

A fact's `place` has the time in seconds since 1970, the node, and the run. It also has the number and the event id of
the delivery that shows the fact. Facts of one event have the same event id. Facts of several nodes are joined by
(connection, correlation id) and by (znode, version), because messages contain these values.

The classes of facts are in `declarations`. Each module named `*_facts` reads facts from the messages of one part of a
node.
"""

from messages.facts.run_facts import facts
