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

MOVED = {
    "action_values": "networks.action_values",
    "actor_critic": "algorithms.actor_critic",
    "addresses": "shared_objects.addresses",
    "agent": "contract.agent",
    "algorithms.registry": "contract.registry",
    "allowed_modules": "trust.allowed_modules",
    "call_progress": "training.call_progress",
    "categorical_values": "networks.categorical_values",
    "checkpoint_file": "checkpoints.file",
    "checkpoint_header": "checkpoints.header",
    "child_process": "processes.child_process",
    "collector": "collection.collector",
    "compiled": "updates.compiled",
    "continuous": "algorithms.continuous",
    "curriculum": "callbacks.curriculum",
    "custom_gradients": "backend.custom_gradients",
    "distributions": "networks.distributions",
    "dueling": "networks.dueling",
    "environments.asynchronous": "environments.vector.asynchronous",
    "environments.batch": "environments.vector.batch",
    "environments.copies": "environments.vector.vector_env",
    "environments.native": "environments.vector.native",
    "environments.pool": "environments.vector.envpool",
    "environments.ray_copies": "environments.vector.ray",
    "environments.sync": "environments.vector.sync",
    "evaluation": "training.evaluation",
    "evaluations": "callbacks.evaluate",
    "fork_server": "processes.fork_server",
    "forwards": "networks.forwards",
    "functions": "contract.spec",
    "global_generators": "training.global_generators",
    "hanging": "processes.hanging",
    "history_file": "callbacks.history_file",
    "hyperparameters": "config.hyperparameters",
    "inference": "networks.inference",
    "interrupts": "callbacks.signals",
    "intervals": "callbacks.intervals",
    "judging": "callbacks.judging",
    "keras_agent": "contract.keras_agent",
    "learner": "contract.learner",
    "learning": "updates.gradient_steps",
    "live": "updates.mutable",
    "live_agent": "contract.mutable_agent",
    "loading": "trust.loading",
    "loopback": "distributed.loopback",
    "module_path": "processes.module_path",
    "named": "callbacks.publish",
    "network_config": "config.network_config",
    "noisy": "networks.noisy",
    "normalization": "updates.normalization",
    "off_policy": "algorithms.off_policy",
    "old_state_file": "checkpoints.old_state_file",
    "optimizers": "config.optimizers",
    "orphans": "processes.orphans",
    "own_training": "training.function_trainer",
    "packing": "updates.packing",
    "parameter_servers": "distributed.parameter_servers",
    "pickling": "contract.pickling",
    "plain_spec": "checkpoints.plain_spec",
    "plain_state": "checkpoints.plain_state",
    "plateaus": "callbacks.plateaus",
    "pool": "collection",
    "pool.child": "collection.child",
    "pool.collector": "collection.pool_collector",
    "pool.engine": "collection.engine",
    "pool.part": "collection.worker",
    "pool.pool": "collection.pool",
    "pool.processes": "collection.processes",
    "pool.ray_engine": "collection.ray_engine",
    "ray_connection": "shared_objects.ray_connection",
    "replay": "buffers",
    "replay.frames": "buffers.frames",
    "replay.hindsight": "buffers.hindsight",
    "replay.join": "buffers.join",
    "replay.memory": "buffers.buffer",
    "replay.n_step": "buffers.n_step",
    "replay.observations": "buffers.observations",
    "replay.prioritized": "buffers.prioritized",
    "replay.rewriting": "buffers.rewriting",
    "replay.rollout": "buffers.rollout",
    "replay.sum_tree": "buffers.sum_tree",
    "replay.trajectories": "buffers.trajectories",
    "replay.uniform": "buffers.uniform",
    "replay_config": "config.buffer_config",
    "retrace": "functional.retrace",
    "returns": "functional.returns",
    "run": "training.run",
    "schedules": "functional.schedules",
    "shared_functions": "backend.shared_functions",
    "silence": "backend.silence",
    "spec": "contract.spec",
    "state_file": "checkpoints.state_file",
    "strategies": "distributed.strategies",
    "team": "distributed.multi_worker",
    "tensorboard": "callbacks.tensorboard",
    "trainer": "training.trainer",
    "training_run": "training.training_run",
    "training_state": "checkpoints.training_state",
    "trust_region": "functional.trust_region",
    "variables": "backend.variables",
    "video": "playing.video",
    "whole_file": "checkpoints.whole_file",
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
