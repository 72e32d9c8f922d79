"""Algorithms of other libraries, as training functions that are named wherever an agent is."""
