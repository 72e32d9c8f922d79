"""Samplers and pruners of Optuna by name, and the adapter that makes a scheduler one of Optuna's pruners."""
