"""The learning-rate range test: the sweep, its evidence and its suggestion.

Judges one run (or several seeds of it); grids of rates are in `finder.finders.lr`.
"""
