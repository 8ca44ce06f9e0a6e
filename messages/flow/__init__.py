"""Event handlers as generators: what they yield, and how they pause."""
