"""Costs of a search, and budgets that it keeps.

Here are the plan of a search with its measured time and memory, budgets in minutes and in total environment steps, and
the limit that keeps them while trials run.
"""
