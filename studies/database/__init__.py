"""Tables beside Optuna's: episodes, leases and fences; schema migrations and retried calls.

SQL is allowed in this room and in `studies.storage` only.
"""
