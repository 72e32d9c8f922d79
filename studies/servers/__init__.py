"""Servers: the dashboard and the gRPC proxy.

Both check the token of `studies.storage.access` before anything else.
"""
