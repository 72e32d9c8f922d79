"""Analysis of a study: ranking, recommendation, confirmation, conclusion.

Reads studies and never writes one; its numbers come from `studies.statistics`.
"""
