"""Processes of this machine: the server they are forked from, how one starts, what hangs, and their end.

Nothing in this room knows what a process works on.
"""
