"""Samplers and pruners: which parameters are tried next, and which trials are stopped.

Adapters to Optuna enter; the statistics behind them are in `studies.statistics`.
"""
