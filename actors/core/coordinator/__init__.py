"""What the group coordinator decides."""
