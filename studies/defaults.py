"""What holds where nobody says otherwise."""

DEFAULT_STORAGE = "sqlite:///finder.db"
"""Where studies are kept: a file in the folder in which the command or script was started."""
