"""Coordination of processes: the leases that one holds, and the trials that it has handed out.

The tables are in `studies.database`; this room holds them while a process lives.
"""
