"""The functions that compute the sections of a summary with Spark. `spark.section_names` lists the sections.

A parameter of such a function has the name of an attribute of `spark.facts.Facts`, whose docstring describes it.
"""

INTERNAL = "__"
"""The names of Kafka's own topics begin with this text. Users' topics come first in lists."""
