"""Default settings that the packages share."""

DEFAULT_STORAGE = "sqlite:///finder.db"
"""Default storage of studies: a file in the folder in which the command or script was started."""

LEAST_PART = 4
"""Runs of a search should be at least this part of the long run: with those of an eighth of it, picks are far from the
best (benchmarks/results/designs.md)."""
