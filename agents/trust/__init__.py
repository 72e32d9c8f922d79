"""Which code and which files may be used: modules that text names, where they are loaded from, signatures of files.

Whatever runs code that a file or a study names goes through this room. Imports no other room.
"""
