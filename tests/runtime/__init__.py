"""Test the actor runtime, rule by rule."""
