"""The file format of states: atomic files, their sections, and finding the checkpoints of a training.

`agents.checkpoints` says what goes into the checkpoint of a training.
"""
