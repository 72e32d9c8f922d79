"""The implementation of `finder play`: its messages, and the files that it writes.

`finder.cli.commands.play` declares the flags.
"""
