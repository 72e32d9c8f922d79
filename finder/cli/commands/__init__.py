"""The commands, a file each (or a few that belong together).

A command reads flags and calls the library; nothing is decided here.
"""
