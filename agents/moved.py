"""Names that modules of `agents` had before they moved into rooms.

They can be imported for one version, with a `DeprecationWarning`: scripts use some, and pickles of earlier versions
name them. Modules that have not moved are imported as usual.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_KEPT_NAMES = {
    ("", "algorithms"): "actor_critic continuous off_policy",
    ("", "backend"): "custom_gradients shared_functions silence variables",
    ("replay", "buffers"): (
        "frames hindsight join n_step observations prioritized rewriting rollout sum_tree trajectories uniform"
    ),
    ("", "callbacks"): "curriculum history_file intervals plateaus",
    ("", "callbacks.loggers"): "tensorboard",
    ("callbacks", "callbacks.loggers"): "tensorboard",
    ("", "checkpoints"): "plain_spec training_state",
    ("", "state_files"): "old_state_file plain_state state_file whole_file",
    ("checkpoints", "state_files"): "header old_state_file plain_state state_file whole_file",
    ("", "collection"): "collector",
    ("pool", "collection"): "child engine pool processes ray_engine",
    ("", "config"): "hyperparameters network_config optimizers",
    ("", "contract"): "agent keras_agent learner pickling spec",
    ("algorithms", "contract"): "registry",
    ("", "distributed"): "loopback parameter_servers strategies",
    ("environments", "environments.vector"): "asynchronous batch native sync",
    ("", "functional"): "retrace returns schedules trust_region",
    ("", "networks"): "action_values categorical_values distributions dueling forwards inference noisy",
    ("", "playing"): "video",
    ("", "processes"): "child_process fork_server hanging module_path orphans",
    ("", "shared_objects"): "addresses ray_connection",
    ("", "training"): "call_progress evaluation global_generators run trainer training_run",
    ("", "trust"): "allowed_modules loading",
    ("", "updates"): "compiled normalization packing",
}
"""Package of before and package of now, both within `agents` -> modules that have kept their name."""

MOVED = {
    "checkpoint_file": "checkpoints.file",
    "checkpoint_header": "state_files.header",
    "environments.copies": "environments.vector.vector_env",
    "environments.pool": "environments.vector.envpool",
    "environments.ray_copies": "environments.vector.ray",
    "evaluations": "callbacks.evaluate",
    "functions": "contract.spec",
    "interrupts": "callbacks.signals",
    "judging": "callbacks.evaluate",
    "learning": "updates.gradient_steps",
    "live": "updates.mutable",
    "live_agent": "contract.mutable_agent",
    "named": "self_play.publish",
    "own_training": "training.function_trainer",
    "pool": "collection",
    "pool.collector": "collection.pool_collector",
    "pool.part": "collection.worker",
    "replay": "buffers",
    "replay.memory": "buffers.buffer",
    "replay_config": "config.buffer_config",
    "team": "distributed.multi_worker",
}
MOVED |= {
    f"{before}.{name}".lstrip("."): f"{now}.{name}"
    for (before, now), names in _KEPT_NAMES.items()
    for name in names.split()
}
"""Old name of a module -> its name now, both within `agents`."""


class MovedModules(MetaPathFinder, Loader):
    """Imports a module by its old name: the same module object as by its new one.

    An old package with modules that have moved is a module of its own with the names of the new package: importing a
    module sets an attribute of its package, which in the new package may have another meaning.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for old names, None for all others."""
        package, _, name = fullname.partition(".")
        if package != "agents" or name not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=any(other.startswith(f"{name}.") for other in MOVED))

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of the new, empty one, or its names into the new package."""
        name = module.__name__
        now = f"agents.{MOVED[name.partition('.')[2]]}"
        warnings.warn(f"{name} has moved: import {now}.", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(now)
        if hasattr(module, "__path__"):
            vars(module).update(__all__=found.__all__, __doc__=found.__doc__, __getattr__=partial(getattr, found))
        else:
            sys.modules[name] = found


def install() -> None:
    """Make old names importable, once in a process."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())  # before those that look below a moved package
