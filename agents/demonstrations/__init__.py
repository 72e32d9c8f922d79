"""Demonstrations: recorded episodes of an expert, from Minari datasets to the spaces of an agent."""
