"""Generate hostile frames of every API and version, and send them to a node.

Frames are well-formed requests with extreme values, and mutations of them.
"""
