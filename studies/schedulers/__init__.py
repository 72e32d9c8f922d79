"""Schedulers, which decide which trials of a search continue: pure functions of the trials so far, without Optuna.

Live searches drive them as pruners (`studies.adapters`), simulated ones directly (`studies.simulation`). The statistics
behind them are in `studies.statistics`.
"""
