"""The trace: the content of a delivery record, the encoding of messages, and the framing of files."""
