"""The command `train`: its settings, its words, its run and its progress.

`finder.cli.commands.train` declares its flags.
"""
