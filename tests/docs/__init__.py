"""Generators of the pages that are derived from the code, and tests that the documentation is current."""
