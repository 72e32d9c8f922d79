"""Trials: as data, as runs of several seeds, and how they are trained, checkpointed and watched.

Where a trial runs is decided by `finder.executors`.
"""
