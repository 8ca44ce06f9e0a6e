"""Tests of the command line, and of the settings a node is started with."""
