"""Storages: opening one from a URL, and access to it, also through the gRPC proxy.

Nothing here interprets the contents of a study.
"""
