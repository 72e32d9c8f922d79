"""The learning-rate range test: the sweep, the test for noise, and the rules that suggest a rate from a curve.

The room covers tests of one or several runs; grids of learning rates are in `finder.finders.lr`. Its public names are
the rules, as functions over (rates, values), and the moving average that is applied before them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
