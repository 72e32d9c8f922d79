"""A search: its options, its loop over trials, and its result.

The room holds the code that all finders share; code of a single finder is in `finder.finders`.
"""
