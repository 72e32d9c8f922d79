"""Callbacks: one a file. `callback` is their base class.

A callback observes and steers a training; it contains no part of the loop.
"""
