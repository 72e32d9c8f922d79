"""A study as data: search space, budget and plan; read from Python, TOML or a storage.

This room holds data and its validation. Nothing here opens a storage.
"""
