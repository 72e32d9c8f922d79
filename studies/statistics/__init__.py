"""Statistics of returns: pure functions over numbers.

No function here knows a study, a storage or a trial.
"""
