"""The number of threads that TensorFlow uses in a process. This module does not import TensorFlow."""

from __future__ import annotations

import contextlib
import os
import sys

from agents.backend.cores import cores, cores_of_quota
from agents.errors import ConfigurationError, check_at_least

_INTRA_OP, _INTER_OP = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"
_OPENMP, _OPENBLAS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
_chosen_here: set[str] = set()  # numbers of threads of this process that nobody else chose
_share: list[int] = []  # threads of this process, if it is one of several


def threads_for(n_processes: int = 1) -> int:
    """Return the threads that each of several processes uses for an operation of TensorFlow, >= 1.

    Each process gets an equal share of the cores (`cores`), within the limit of `at_most`.

    Args:
        n_processes: Number of processes on this machine, >= 1. Defaults to 1.
    """
    return at_most(max(1, cores() // n_processes))


def at_most(share: int) -> int:
    """Return a share of the cores, limited by the environment.

    The limit is the variable ``TF_NUM_INTRAOP_THREADS``, or else ``OMP_NUM_THREADS``; values other than positive
    integers are ignored.
    """
    limit = _from_environment(_INTRA_OP) or _from_environment(_OPENMP)
    return min(share, limit) if limit else share


def set_num_threads(n: int) -> None:
    """Set the number of threads that TensorFlow uses for an operation, in this process and in those it starts.

    Call it before the first agent is built. It sets the environment variable ``TF_NUM_INTRAOP_THREADS``. The processes
    of a search divide the cores among themselves, and use at most `n` threads each.

    Args:
        n: Number of threads, >= 1.

    Raises:
        ConfigurationError: `n` is less than 1, or TensorFlow has already started with another number.
    """
    check_at_least(1, num_threads=n)
    if "tensorflow" in sys.modules:
        tf = sys.modules["tensorflow"]
        try:
            tf.config.threading.set_intra_op_parallelism_threads(n)
        except RuntimeError:
            raise ConfigurationError(
                f"TensorFlow has started with {threads_in_use()} threads, so their number cannot become {n}: set it "
                "before the first agent is built, or in the environment (TF_NUM_INTRAOP_THREADS)."
            ) from None
    os.environ[_INTRA_OP] = str(n)
    _chosen_here.discard(_INTRA_OP)


def limit_threads() -> None:
    """Limit the threads of TensorFlow, which was imported and has not started, to the cores of this process.

    TensorFlow knows the affinity of a process and no quota of a container. Numbers that were set before, by
    `tf.config.threading` or in the environment, are kept.
    """
    threading = sys.modules["tensorflow"].config.threading
    try:
        if not threading.get_intra_op_parallelism_threads():
            threading.set_intra_op_parallelism_threads(threads_for())
            if not _from_environment(_INTRA_OP) and not _from_environment(_OPENMP):
                _chosen_here.add(_INTRA_OP)
        if not threading.get_inter_op_parallelism_threads() and not _from_environment(_INTER_OP):
            threading.set_inter_op_parallelism_threads(cores())
    except RuntimeError:  # TensorFlow has started with its own numbers
        return


def share_threads_between_operations() -> None:
    """Use half of the cores for each operation of TensorFlow, >= 1: for agents whose operations are small.

    Such operations, of two critics or of two gradients, run beside each other (inter-op threads), which is faster than
    one after the other on all cores; convolutions are faster on all cores. Without effect once TensorFlow has started
    or somebody has set the number.
    """
    if _INTRA_OP in _chosen_here:
        with contextlib.suppress(RuntimeError):  # TensorFlow has started
            sys.modules["tensorflow"].config.threading.set_intra_op_parallelism_threads(max(1, threads_for() // 2))
        _chosen_here.discard(_INTRA_OP)


def limit_blas_threads() -> None:
    """Limit the threads of NumPy's matrix products to the quota of a container, of which OpenBLAS does not know.

    Without effect where NumPy is imported, there is no quota, or the environment has a number of threads.
    """
    given = any(os.environ.get(name) for name in (_OPENBLAS, _OPENMP))
    if "numpy" not in sys.modules and not given and (quota := cores_of_quota()) is not None:
        os.environ[_OPENBLAS] = str(quota)


def share_blas_threads(n: int) -> None:
    """Limit the threads of NumPy's matrix products to the share of one of several processes, and store it.

    Without a limit each process would use all cores: on two, a search in two processes was slower than in one.

    Args:
        n: Number of threads, >= 1; a smaller one in the environment (``OPENBLAS_NUM_THREADS``) is kept.
    """
    from threadpoolctl import threadpool_limits

    _share[:] = [n]
    threadpool_limits(min(n, _from_environment(_OPENBLAS) or n), user_api="blas")


def own_threads() -> int:
    """Return the threads that this process uses for an operation: its share, if it is one of several."""
    return _share[0] if _share else threads_for()


def threads_in_use() -> int:
    """Return the threads of this process for an operation of TensorFlow, which is imported."""
    n: int = sys.modules["tensorflow"].config.threading.get_intra_op_parallelism_threads()
    return n or _from_environment(_INTRA_OP) or cores()


def _from_environment(name: str) -> int:
    """Return a number of threads in the environment, 0 if there is none; of the list ``4,2`` the first."""
    first = os.environ.get(name, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0
