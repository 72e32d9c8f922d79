"""Statistics of returns, as pure functions over numbers.

No function here takes a study, a storage or a trial.
"""
