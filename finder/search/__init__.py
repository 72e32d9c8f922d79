"""A search: its options, its loop from trial to trial, and its result.

What the finders have in common enters; what only one of them needs is in `finder.finders`.
"""
