"""An open study: its spec, its storage, its trials.

What is concluded from a study is in `studies.analysis`; what is written to it in `studies.recording`.
"""
