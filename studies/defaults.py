"""Default settings that the packages share."""

DEFAULT_STORAGE = "sqlite:///finder.db"
"""Default storage of studies: a file in the folder in which the command or script was started."""
