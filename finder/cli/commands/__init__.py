"""The commands of `finder`.

A command parses flags and calls the library. Commands do not import each other.
"""
