"""Set up a process that was forked from the fork server. Importing this module imports TensorFlow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from agents.backend.tensorflow import tf
from agents.backend.threads import share_blas_threads
from agents.processes.orphans import end_with_parent, leave_signals_to_parent
from agents.shared_objects import use_address


def begin(threads: int, address: str, path: Sequence[str]) -> None:
    """Set up this process. Call before any TensorFlow operation.

    Args:
        threads: Cores that this process may use.
        address: Address of the shared objects (`agents.shared_objects`).
        path: The `sys.path` of the parent, to find modules of the user.
    """
    leave_signals_to_parent()
    end_with_parent()
    use_address(address)
    sys.path[:] = path
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    share_blas_threads(threads)
    gc.freeze()  # imported objects live as long as the process: scanning them was 5% of a profile
