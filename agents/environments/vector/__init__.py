"""Vector environments: several copies of one environment that are stepped together.

One file per kind: in this process, NumPy, processes, EnvPool, Ray. Agents use `batch`, which chooses the kind.
"""
