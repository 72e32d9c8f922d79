"""Processes of this machine: fork server, start of a child process, detection of hung calls, and end with the parent.

This room does not depend on the work that a process does.
"""
