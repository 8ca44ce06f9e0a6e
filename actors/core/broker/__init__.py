"""The decisions of a broker as pure functions and classes: which requests it accepts, what its replicas do, what
clients see.
"""
