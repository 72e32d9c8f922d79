"""Progress: what a person sees of long work, on a terminal, in a log, in a notebook.

Nothing in this room can end the work that it shows.
"""
