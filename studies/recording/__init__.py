"""Recording: creating and resuming studies, handing out their trials, and writing what happens to them.

Every write to a study's trials is made here, under a lease.
"""
