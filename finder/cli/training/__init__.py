"""The implementation of `finder train`: its settings, messages, run and progress.

`finder.cli.commands.train` declares the flags.
"""
