"""Training: the one loop (`Trainer`), runs and budgets, evaluation, and training functions of the user's own.

The records that callbacks receive are defined here; callbacks are in `agents.callbacks`.
"""
