"""Recording: creating and resuming studies, handing out their trials, and writing their events.

Every write to the trials of a study is made here, under a lease.
"""
