"""`python -m actors.cli` is `kafka-actors`."""

from actors.cli import main

main()
