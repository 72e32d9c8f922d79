"""Finder beside other searches and no search, at equal wall-clock."""
