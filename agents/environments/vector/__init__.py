"""Vector environments: several copies of one environment that are stepped together.

One kind a file: in this process, NumPy, processes, EnvPool, Ray. `batch` chooses the kind and is what agents use.
"""
