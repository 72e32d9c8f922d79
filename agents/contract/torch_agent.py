"""Base class for agents with PyTorch networks: the contract of `KerasAgent`, with a loss in PyTorch.

A subclass implements `build`, `act`, `make_buffer` and `loss` (or `optimizer_steps`); a complete agent takes about 30
lines (`examples/your_own_torch_agent.py`). Training, checkpoints, callbacks, pools and finders are the same for both.
PyTorch runs eagerly: there is nothing to compile, a trial has a process of its own, and hyperparameters are plain
numbers everywhere.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.backend.pytorch import import_torch
from agents.buffers import Batches
from agents.config.agent_config import AgentConfig
from agents.config.optimizers import OptimizerSpec
from agents.contract.agent import ActionSpace, UpdateMetrics
from agents.contract.mutable_agent import MutableAgent
from agents.contract.restoring import is_restoring
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, unknown_name
from agents.updates.gradient_steps import PRIORITIES, OptimizerStep
from agents.updates.mutable import Live
from agents.updates.torch_optimizer import TorchOptimizer, torch_optimizer

Array = np.ndarray[Any, Any]


class TorchAgent(MutableAgent):
    """Base class for agents with PyTorch networks. See `Agent` for the arguments.

    The optimizers of the config have Keras's names and arguments, and mean the same update rules but for the place of
    epsilon (`agents.updates.torch_optimizer`); other ones are named by their class, such as ``torch.optim:RAdam``.

    Class attributes:
        target_networks: Target network name -> name of its online network. The config of such an agent has `tau` (share
            of the online network in an update of the targets) and `target_update_interval` (gradient steps between).
        device: The PyTorch device of networks and minibatches. Defaults to ``"cpu"``.

    Attributes:
        networks: The networks by name, `torch.nn.Module` objects. They are in evaluation mode outside of updates.
    """

    target_networks: ClassVar[Mapping[str, str]] = {}
    device: ClassVar[str] = "cpu"
    _bound: Mapping[str, TorchOptimizer]

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: ActionSpace,
        config: AgentConfig | None = None,
        *,
        seed: int = 0,
        environment: EnvironmentSpec | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, seed=seed, environment=environment)
        if self.config.jit_compile is not None:
            raise ConfigurationError("jit_compile concerns TensorFlow, and this agent is in PyTorch: leave it out.")
        if self.target_networks and not {"tau", "target_update_interval"} <= {*self.config.to_dict()}:
            raise ConfigurationError(
                f"{type(self).__name__} has target networks, and {type(self.config).__name__} lacks tau or "
                f"target_update_interval: make it a subclass of agents.OffPolicyConfig, which has both."
            )
        self.live = Live(self.config.live_values())
        self._record_norms = False
        self.networks, self._generator = self._built(seed)
        names = {name: self._weights_of(own) for name, own in self.optimized_networks().items()}
        for name in self.config.optimizers:
            if name not in names:
                raise unknown_name(f"optimizer of {type(self).__name__}", name, names)
        self._bound = {name: TorchOptimizer(self.optimizer_spec(name), weights) for name, weights in names.items()}
        self._optimizers = self._bound
        self._initial_digest = self._weights_digest()
        self.start()

    @abstractmethod
    def build(self) -> Mapping[str, Any]:
        """Build the networks, `torch.nn.Module` objects by name, with PyTorch's generator seeded.

        Target networks are built here too; they start equal to their online networks. `start` makes all other parts of
        an agent.
        """

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the losses of one minibatch.

        Args:
            batch: Name -> tensor [B, ...] on `device`: columns of the buffer and of `preprocess_batch`. Numbers are
                float32, integers int64, flags bool, and images uint8.

        Returns:
            A scalar tensor for every optimizer (``"default"`` for a single one), and any scalars to record; also
            ``"priorities"`` [B], for a prioritized buffer.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method loss(batch), or optimizer_steps().")

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        """Return the optimizer steps of a gradient step, in order; see `KerasAgent.optimizer_steps`."""
        return [OptimizerStep(list(self.optimizers), self.loss)]

    @classmethod
    def check_optimizer(cls, spec: OptimizerSpec) -> None:
        torch_optimizer(spec)

    def optimized_networks(self) -> Mapping[str, Sequence[str]]:
        """Return optimizer name -> names of its networks. Defaults to one optimizer for all but the target networks."""
        return {"default": [name for name in self.networks if name not in self.target_networks]}

    # Acting ---------------------------------------------------------------------------------------------------

    def infer(self, name: str, observations: Array) -> Array:
        """Return a network's outputs for observations [N, ...] as NumPy, without gradients.

        Actions are drawn with `rng`, as PyTorch's generator is the agent's own in `build` and in updates only.
        """
        torch = import_torch()
        if name not in self.networks:
            raise unknown_name("network", name, self.networks)
        with torch.no_grad():
            outputs: Array = self.networks[name](self.tensor(observations)).cpu().numpy()
        return outputs

    def tensor(self, values: Array) -> Any:
        """Return an array as a tensor on `device`: float32, int64 or bool; images stay uint8."""
        torch = import_torch()
        kind, is_image = values.dtype.kind, values.ndim > 2 and values.dtype == np.uint8
        dtype = (
            torch.uint8 if is_image else {"b": torch.bool, "i": torch.int64, "u": torch.int64}.get(kind, torch.float32)
        )
        return torch.from_numpy(np.require(values, requirements=["C", "W"])).to(self.device, dtype)

    def acting_state(self) -> list[Array]:
        arrays = [values for network in self.network_values().values() for values in network]
        return [*arrays, *self.acting_numbers()]

    def set_acting_state(self, state: Sequence[Array]) -> None:
        arrays = iter(self.set_acting_numbers(state))
        self.assign_networks({name: [next(arrays) for _ in own.state_dict()] for name, own in self.networks.items()})

    # Learning -------------------------------------------------------------------------------------------------

    def update(self, batches: Batches) -> UpdateMetrics:
        data = {name: self.tensor(values) for name, values in batches.data.items()}
        steps, history = list(self.optimizer_steps()), []
        self._check_steps(steps)
        trained = [network for name, network in self.networks.items() if name not in self.target_networks]
        for network in trained:
            network.train()
        try:
            with self._own_generator():
                for rows in batches.indices:
                    chosen = self.tensor(rows)  # [B]
                    history.append(self._gradient_step(steps, {name: values[chosen] for name, values in data.items()}))
        finally:
            for network in trained:
                network.eval()
        self.fresh = False
        names = dict.fromkeys(name for each in history for name in each)
        values = {name: np.stack([each.get(name, np.nan) for each in history]) for name in names}  # [K] or [K, B]
        losses = {name: values.pop(name) for name in self.optimizers}
        priorities = values.pop(PRIORITIES, None)
        return UpdateMetrics(losses, values, priorities=priorities)

    def record_gradient_norms(self) -> None:
        """Record each optimizer's ``gradient_norm/NAME`` and ``clipped_gradient_norm/NAME`` as metrics of updates."""
        self._record_norms = True

    def _gradient_step(self, steps: Sequence[OptimizerStep], minibatch: dict[str, Any]) -> dict[str, Any]:
        """Make one gradient step; return its values by name."""
        values: dict[str, Any] = {}
        for step in steps:
            losses = self._losses(step, minibatch)
            values |= losses
            if (self.gradient_steps + 1) % step.every == 0:
                values |= self._apply(step, losses)
                values |= {} if step.after is None else self._tensors(step.after(minibatch))
        self.count_gradient_steps(self.gradient_steps + 1)
        self._update_targets()
        return {name: value.detach().cpu().numpy() for name, value in values.items()}

    def _apply(self, step: OptimizerStep, losses: Mapping[str, Any]) -> dict[str, Any]:
        """Make the optimizer steps on losses; return the norms of the gradients, if they are recorded."""
        torch, several = import_torch(), len(step.optimizers) > 1
        norms: dict[str, Any] = {}
        for name in step.optimizers:
            if not losses[name].requires_grad:
                raise _without_gradient(name)
        gradients = {
            name: torch.autograd.grad(losses[name], self._bound[name].weights, retain_graph=several, allow_unused=True)
            for name in step.optimizers
        }
        for name, own in gradients.items():
            if all(gradient is None for gradient in own):
                raise _without_gradient(name)
            if self.config.max_grad_norm is None and not self._record_norms:
                self._bound[name].step(own)
                continue
            clipped, of_own = self._clipped(name, own)
            self._bound[name].step(clipped)
            norms |= of_own
        return norms

    def _clipped(self, name: str, gradients: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return gradients whose global norm is at most `max_grad_norm`, and their norms if these are recorded."""
        torch, largest = import_torch(), self.config.max_grad_norm
        squares = [gradient.square().sum() for gradient in gradients if gradient is not None]
        norm = torch.stack(squares).sum().sqrt()
        scale = torch.ones_like(norm) if largest is None else torch.clamp(largest / (norm + 1e-12), max=1.0)
        clipped = [None if gradient is None else gradient * scale for gradient in gradients]
        values = {f"gradient_norm/{name}": norm, f"clipped_gradient_norm/{name}": norm * scale}
        return clipped, values if self._record_norms else {}

    def _losses(self, step: OptimizerStep, minibatch: dict[str, Any]) -> dict[str, Any]:
        losses = self._tensors(step.loss(minibatch))
        for name in step.optimizers:
            if name not in losses:
                raise ConfigurationError(
                    f"loss() must give a value for the optimizer {name!r}; it gave {sorted(losses)}."
                )
        return losses

    def _tensors(self, given: Any) -> dict[str, Any]:
        """Return the values of a loss as tensors: scalars, and priorities [B]."""
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"loss() must return its values by name, such as {{'default': ...}}, got {given!r}."
            )
        torch = import_torch()
        values = {name: torch.as_tensor(value) for name, value in given.items()}
        for name, value in values.items():
            if value.ndim != (1 if name == PRIORITIES else 0):
                wanted = "one number for each row" if name == PRIORITIES else "a scalar"
                raise ConfigurationError(f"loss() must give {wanted} as {name!r}, got shape {tuple(value.shape)}.")
        return values

    def _check_steps(self, steps: Sequence[OptimizerStep]) -> None:
        if sorted(name for step in steps for name in step.optimizers) != sorted(self.optimizers):
            raise ConfigurationError(
                f"optimizer_steps() must have each of the optimizers {sorted(self.optimizers)} in one step; it gave "
                f"{[list(step.optimizers) for step in steps]}."
            )

    def _update_targets(self) -> None:
        config = cast("Any", self.config)
        if not self.target_networks or self.gradient_steps % config.target_update_interval:
            return
        torch = import_torch()
        with torch.no_grad():
            for target, online in self.target_networks.items():
                pairs = zip(
                    self.networks[target].state_dict().values(),
                    self.networks[online].state_dict().values(),
                    strict=True,
                )
                for slow, fast in pairs:
                    if slow.dtype.is_floating_point:
                        slow.lerp_(fast, config.tau)
                    else:
                        slow.copy_(fast)

    # Building, resetting, saving ------------------------------------------------------------------------------

    def _built(self, seed: int) -> tuple[dict[str, Any], list[Array]]:
        """Return the networks of a seed, and the states of PyTorch's generators for the agent."""
        torch = import_torch()
        with torch.random.fork_rng(devices=self._gpus()):
            torch.manual_seed(seeding.integers(seed, "weights", 1)[0])
            built = self.build()
            if not isinstance(built, Mapping) or not all(isinstance(each, torch.nn.Module) for each in built.values()):
                raise ConfigurationError(
                    f"{type(self).__name__}.build() must return torch.nn.Module objects by name, such as "
                    f"{{'policy': torch.nn.Sequential(...)}}, it returned {built!r}."
                )
            for name in (name for pair in self.target_networks.items() for name in pair):
                if name not in built:
                    raise ConfigurationError(
                        f"{type(self).__name__}.target_networks names {name!r}, which build() does not return; it "
                        f"returns {', '.join(map(repr, built))}."
                    )
            networks = {name: network.to(self.device).eval() for name, network in built.items()}
            if not is_restoring():
                self.set_initial_weights(networks)
            for target, online in self.target_networks.items():
                networks[target].load_state_dict(networks[online].state_dict())
                networks[target].requires_grad_(False)
            return networks, self._generator_states()

    def set_initial_weights(self, networks: Mapping[str, Any]) -> None:
        """Change the weights of new networks that the seed has drawn. Defaults to no change.

        See `KerasAgent.set_initial_weights`.
        """

    def _weights_of(self, names: Sequence[str]) -> list[Any]:
        """Return the parameters of networks that are trained, each once."""
        found: dict[int, Any] = {}
        for name in names:
            if name not in self.networks:
                raise unknown_name("network", name, self.networks)
            found |= {id(each): each for each in self.networks[name].parameters() if each.requires_grad}
        return list(found.values())

    @contextmanager
    def _own_generator(self) -> Iterator[None]:
        """Install the agent's states of PyTorch's generators in the block, so that equal seeds give equal runs."""
        before = self._generator_states()
        self._set_generators(self._generator)
        try:
            yield
        finally:
            self._generator = self._generator_states()
            self._set_generators(before)

    def _gpus(self) -> list[Any]:
        """Return the device of the agent, if it has a generator of its own beside that of the CPU."""
        device = import_torch().device(self.device)
        return [device] if device.type == "cuda" else []

    def _generator_states(self) -> list[Array]:
        torch = import_torch()
        return [torch.get_rng_state().numpy(), *(torch.cuda.get_rng_state(gpu).numpy() for gpu in self._gpus())]

    def _set_generators(self, states: Sequence[Array]) -> None:
        torch = import_torch()
        torch.set_rng_state(torch.from_numpy(states[0]))
        for gpu, state in zip(self._gpus(), states[1:], strict=False):  # the state may be of a machine without one
            torch.cuda.set_rng_state(torch.from_numpy(state), gpu)

    def network_values(self) -> dict[str, list[Array]]:
        return {
            name: [np.array(value.detach().cpu().numpy()) for value in network.state_dict().values()]
            for name, network in self.networks.items()
        }

    def assign_networks(self, values: Mapping[str, Sequence[Array]]) -> None:
        torch = import_torch()
        for name, network in self.networks.items():
            with torch.no_grad():
                for own, value in zip(network.state_dict().values(), values[name], strict=True):
                    if tuple(own.shape) != np.shape(value):
                        raise ValueError(f"the network {name!r} has weights of other shapes")
                    own.copy_(torch.as_tensor(np.asarray(value)))

    def restart_optimizers(self) -> None:
        for name, bound in self._bound.items():
            bound.reset(self.optimizer_spec(name))

    def reset(self, seed: int, values: Mapping[str, Any] | None = None) -> None:
        config = self.config.replace(values or {})
        self._require_same_structure(config, "be reset")
        self.seed, self.config = seed, config
        # `build` may keep networks in attributes; the agent must keep the networks that its optimizers update.
        fresh, self._generator = copy.copy(self)._built(seed)
        for name, network in self.networks.items():
            network.load_state_dict(fresh[name].state_dict())
        self.restart_optimizers()
        self._restart_counters(seed)
        self.renumber(config)
        self.fresh, self._initial_digest = True, self._weights_digest()

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "torch_generators": [np.array(state) for state in self._generator]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self._generator = [np.array(own) for own in state["torch_generators"]]


def _without_gradient(optimizer: str) -> ConfigurationError:
    return ConfigurationError(f"The loss of the optimizer {optimizer!r} does not depend on its weights.")
