"""The decisions of a broker as pure functions and classes: request checks, replica states and responses to clients."""
