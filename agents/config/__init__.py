"""Hyperparameters as frozen dataclasses: what may be set, in which range, and what is searched by default.

Optimizers, networks and buffers are described here as data; other rooms build them.
"""
