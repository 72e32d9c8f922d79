"""Training: the training loop (`Trainer`), runs and budgets, evaluation, and users' training functions.

The records that callbacks receive are defined here; callbacks are in `agents.callbacks`.
"""
