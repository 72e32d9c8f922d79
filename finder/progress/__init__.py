"""Progress displays and console output: on a terminal, in a log, in a notebook.

Errors in this room never end the work that it displays.
"""
