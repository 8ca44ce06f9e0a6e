"""Run Thespian's own tests on LocalBase: `python -m pytest -p tests.thespian_suite.plugin --pyargs thespian.test`."""
