"""Samplers, which propose parameters, and schedulers, which decide which trials continue.

Schedulers are pure functions of the trials so far and do not know Optuna; `SchedulerPruner` makes them pruners of it.
The statistics behind them are in `studies.statistics`.
"""
