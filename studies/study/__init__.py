"""An open study: its spec, its storage and its trials.

`studies.analysis` draws conclusions from a study; `studies.recording` writes to it.
"""
