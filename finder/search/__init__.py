"""A search: its options, and its loop over trials.

The room holds the code that all finders share; code of a single finder is in `finder.finders`.
"""
