"""What the documentation takes from the code: the generators, and the tests that it is current."""
