"""Recording: creating and resuming studies, handing out their trials, and writing their events.

Writes to the trials of a study are made here and in `studies.queue`, under a lease.
"""
