"""The long run: training in a folder, from a study's pick or from a config; histories of several runs.

Nothing here searches.
"""
