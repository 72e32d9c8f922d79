"""Pure functions: returns and advantages, Retrace, trust regions, schedules, exact results for tabular processes.

Functions on objects with state belong elsewhere. Imports only `agents.backend`.
"""
