"""Rules about sources and pages, for `make lint`: what no test in pytest has to run for.

Rule 1: a rule is a function that lists all offenders, and says in its docstring what to do about them.
Rule 2: a rule with an `example` is first applied to it. A rule that finds nothing there is reported, not trusted.
"""
