"""Pure functions: returns and advantages, Retrace, trust regions, schedules.

A function that needs an object with state belongs elsewhere. Imports only `agents.backend`.
"""
