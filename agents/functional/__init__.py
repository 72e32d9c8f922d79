"""Pure functions: returns and advantages, Retrace, trust regions, schedules, tabular decision processes.

Functions on objects with state belong elsewhere. Imports only `agents.backend`.
"""
