"""Pure functions: returns and advantages, Retrace, trust regions, schedules.

Functions on objects with state belong elsewhere. Imports only `agents.backend`.
"""
