"""The learning-rate range test: the sweep, the test for noise, and the suggestion.

The room covers tests of one or several runs; grids of learning rates are in `finder.finders.lr`.
"""
