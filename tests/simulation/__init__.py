"""The cluster on paper."""
