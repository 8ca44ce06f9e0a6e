"""The actor runtime, rule by rule."""
