"""Judging: which trial of a search is best, how sure that is, and which ones are confirmed.

Most modules are pure functions over numbers, so that live and simulated searches are judged alike.
"""
