"""A cluster of real processes under random faults for as long as one likes, watched from outside."""
