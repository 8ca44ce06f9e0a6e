"""Tests of the command line and of a node's settings."""
