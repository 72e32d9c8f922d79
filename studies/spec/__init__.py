"""A study as data: search space, budget, plan; read from Python, TOML or a storage.

Data and their checks enter. Nothing here opens a storage.
"""
