"""Thespian's own tests, run on our base: `python -m pytest -p tests.thespian_suite.plugin --pyargs thespian.test`."""
