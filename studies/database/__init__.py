"""Tables beside Optuna's: episodes, leases and fences; how their schema migrates, and how calls are retried.

SQL enters here and in `studies.storage`, nowhere else.
"""
