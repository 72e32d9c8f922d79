"""Coordination of processes: the leases that a process holds, and the trials that it runs.

The tables are in `studies.database`.
"""
