"""Analysis of a study: its status, recommendation and conclusion, and what another study may take from it.

This room reads studies and never writes to one.
"""
