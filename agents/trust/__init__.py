"""Restrictions on code and files: modules that text may name, loading of user code, and signatures of files.

All code that a file or a study names is loaded through this room. Imports no other room.
"""
