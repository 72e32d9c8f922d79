"""Analysis of a study: ranking, recommendation, confirmation, conclusion.

This room reads studies and never writes to one; its statistics are in `studies.statistics`.
"""
