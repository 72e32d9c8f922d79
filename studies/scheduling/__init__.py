"""Samplers and pruners: proposal of parameters, and pruning of trials.

This room adapts Optuna; the statistics behind it are in `studies.statistics`.
"""
