"""The long run: training in a folder, from the pick of a study or from a configuration; histories of several runs.

The room does not import the finders.
"""
