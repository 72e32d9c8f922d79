"""Storages: opening one from a URL, and reading and writing it, also through the gRPC proxy.

Nothing here knows what a study is searching.
"""
