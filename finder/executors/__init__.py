"""Executors run trials: in this process, in processes of their own, or many at a time in populations.

The room imports `finder.trials`; a search chooses an executor and listens to its events.
"""
