"""Algorithms of Stable-Baselines3 and sb3-contrib as training functions: ``sb3:PPO`` wherever an agent is named.

A run is the library's own ``model.learn``, so a learning rate that is found here is the one to use there. The
hyperparameters of ``sb3:PPO`` are the arguments of the class PPO, with its defaults, and five more (`OWN`). The
libraries are imported where they are first used; Finder does not require them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from agents.algorithms.actor_critic import OneLossConfig
from agents.algorithms.dqn import DQNConfig
from agents.algorithms.ppo import PPOConfig
from agents.algorithms.sac import SACConfig
from agents.backend.pytorch import import_torch
from agents.config.hyperparameters import Config, Hyperparameter
from agents.config.optimizers import OptimizerSpec
from agents.contract.registry import SB3_PREFIX
from agents.contract.spec import FunctionSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, NonFiniteError, check_at_least, unknown_name
from agents.seeding import integers
from agents.updates.torch_optimizer import torch_optimizer

ALGORITHMS: Mapping[str, tuple[str, type[Config]]] = {
    "A2C": ("stable_baselines3", OneLossConfig),
    "CrossQ": ("sb3_contrib", SACConfig),
    "DDPG": ("stable_baselines3", SACConfig),
    "DQN": ("stable_baselines3", DQNConfig),
    "PPO": ("stable_baselines3", PPOConfig),
    "QRDQN": ("sb3_contrib", DQNConfig),
    "RecurrentPPO": ("sb3_contrib", PPOConfig),
    "SAC": ("stable_baselines3", SACConfig),
    "TD3": ("stable_baselines3", SACConfig),
    "TQC": ("sb3_contrib", SACConfig),
    "TRPO": ("sb3_contrib", OneLossConfig),
}
"""Class -> its package, and the config of Finder that describes hyperparameters of the same names."""

OWN: Mapping[str, tuple[Any, Any, Hyperparameter]] = {
    "policy": (
        str,
        "auto",
        Hyperparameter(
            help="Policy class of the library by name; auto: MultiInputPolicy for dictionaries, CnnPolicy for images, "
            "else MlpPolicy."
        ),
    ),
    "n_envs": (int, 1, Hyperparameter(help="Number of environment copies stepped together.", low=1)),
    "normalize": (bool, False, Hyperparameter(help="Whether observations and rewards are normalized (VecNormalize).")),
    "optimizer": (
        str | None,
        None,
        Hyperparameter(
            help="Optimizer by Keras's name, with arguments in parentheses, or torch.optim:Class; null: the library's.",
            search=("adam", "adamw", "rmsprop", "sgd"),
        ),
    ),
    "policy_kwargs": (
        Mapping[str, Any] | None,
        None,
        Hyperparameter(
            help="Arguments of the policy class, such as net_arch; activation_fn by its name in torch.nn (Tanh, ReLU)."
        ),
    ),
}
"""Hyperparameter -> type, default and description, beside the arguments of the class."""

_TYPES: Mapping[str, Any] = {
    **{"target_kl": float | None, "clip_range_vf": float | None},
    **{"max_grad_norm": float, "device": str, "train_freq": int | tuple[int, str]},
}
"""Types of arguments that their defaults do not show. Others whose default is None are left out."""

_ROLLOUTS = (32, 64, 128, 256, 512, 1024, 2048)
"""Lengths of rollouts that are searched: the library has one environment by default."""

_NOT_SEARCHED = frozenset(
    {"env", "seed", "stats_window_size", "supported_action_spaces", "tensorboard_log", "verbose", "_init_setup_model"}
)

_LOSSES = ("train/loss", "train/critic_loss", "train/value_loss")
"""Names of losses in the library's logger; the first that is there is the loss of an update."""

_NO_LIMIT = 10**15


def training_function_of(agent: str) -> Callable[..., None]:
    """Return the training function of a name such as ``"sb3:PPO"``.

    Raises:
        ConfigurationError: There is no such algorithm, or its library is not installed.
    """
    return _training_function(_known_name(agent))


def make_model(agent: str, environment: Any, *, seed: int = 0, **params: Any) -> Any:
    """Return a model of the library with hyperparameters that a study found, ready for ``model.learn``.

    Args:
        agent: A name such as ``"sb3:PPO"``.
        environment: The environment: an id, a function that makes one, or an `agents.EnvironmentSpec`. The model closes
            nothing: ``model.get_env().close()`` closes its copies.
        seed: Seed of a run, >= 0: that of the library is derived from it, so that runs of neighbouring seeds share no
            streams. A study's run of this seed is the same one. Defaults to 0.
        **params: Hyperparameters; those that are left out have the library's defaults.

    Raises:
        ConfigurationError: An unknown name, or a bad value.
    """
    spec = FunctionSpec.of_function(agent, EnvironmentSpec.of(environment), params)
    return _model(_known_name(agent), spec.environment, seed, spec.parameters)


def _known_name(agent: str) -> str:
    """Return the class of ``"sb3:ppo"`` as the library spells it."""
    asked = agent[len(SB3_PREFIX) :]
    found = {name.lower(): name for name in ALGORITHMS}.get(asked.lower())
    if found is None:
        raise unknown_name("algorithm of Stable-Baselines3", asked, ALGORITHMS)
    return found


def _library_class(name: str) -> Any:
    package = ALGORITHMS[name][0]
    if importlib.util.find_spec(package) is None:
        raise ConfigurationError(
            f"{SB3_PREFIX}{name} needs the package {package}, which is not installed: "
            f"pip install {package.replace('_', '-')}."
        )
    import_torch()  # before the library does, which would use all cores in each process of a search
    return getattr(importlib.import_module(package), name)


@functools.cache
def _training_function(name: str) -> Callable[..., None]:
    def train(run: Any, **values: Any) -> None:
        _learn(name, run, values)

    parameters = [inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for parameter, (kind, default, about) in _hyperparameters(name).items():
        train.__annotations__[parameter] = annotation = Annotated[kind, about]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(parameter, keyword, default=default, annotation=annotation))
    train.check = functools.partial(_check, name)  # type: ignore[attr-defined]
    train.__name__ = train.__qualname__ = f"{SB3_PREFIX}{name}"
    train.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return train


def _hyperparameters(name: str) -> dict[str, tuple[Any, Any, Hyperparameter]]:
    """Return hyperparameter -> type, default and description."""
    described = ALGORITHMS[name][1].describe()
    found = {}
    for parameter in inspect.signature(_library_class(name).__init__).parameters.values():
        default = parameter.default
        if parameter.name in _NOT_SEARCHED or default is parameter.empty:
            continue
        if default is None and parameter.name not in _TYPES:
            continue
        kind = _TYPES.get(parameter.name) or (str | float if default == "auto" else type(default))
        about = Hyperparameter(help=f"Argument of {name} in {ALGORITHMS[name][0]}.")
        own = described.get(parameter.name)
        if own is not None and isinstance(default, int | float) and not isinstance(default, bool):
            searched = _ROLLOUTS if parameter.name == "n_steps" and default > 1 else own.search
            low = None if parameter.name == "gradient_steps" else own.low  # -1: as many as were collected
            about = dataclasses.replace(own, live=False, acting=False, when=None, low=low, search=searched)
        found[parameter.name] = (kind, default, about)
    return found | dict(OWN)


def _check(name: str, environment: EnvironmentSpec, values: Mapping[str, Any]) -> None:
    """Build a model once; see `make_model` for the errors."""
    _model(name, environment, 0, values).get_env().close()


def _learn(name: str, run: Any, values: Mapping[str, Any]) -> None:
    """Run ``model.learn`` and report its episodes."""
    if run.env_steps is None and "exploration_fraction" in values:
        raise ConfigurationError(
            f"{SB3_PREFIX}{name} explores for a share of its steps (exploration_fraction): give a budget in "
            f"environment steps (--env-steps; in Python env_steps), not in episodes."
        )
    model = _model(name, run.environment, run.seed, values)
    try:
        with _non_finite_weights(model):
            model.learn(total_timesteps=run.env_steps or _NO_LIMIT, callback=_reporter(run))
    finally:
        model.get_env().close()


@contextlib.contextmanager
def _non_finite_weights(model: Any) -> Iterator[None]:
    """Raise `NonFiniteError` for an error of a model whose weights are not finite: the library's own errors differ."""
    try:
        yield
    except (ValueError, RuntimeError, AssertionError) as error:
        torch = import_torch()
        if all(bool(torch.isfinite(weights).all()) for weights in model.policy.parameters()):
            raise
        raise NonFiniteError(
            f"The weights became NaN or infinite by {model.num_timesteps:,} environment steps: the learning rate is "
            f"probably too high."
        ) from error


def _reporter(run: Any) -> Any:
    """Return the callback that reports episodes to a run."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Reporter(BaseCallback):  # type: ignore[misc]
        newest_loss: float | None = None

        def _on_step(self) -> bool:
            logged = self.model.logger.name_to_value
            found = next((logged[loss] for loss in _LOSSES if loss in logged), None)
            self.newest_loss = self.newest_loss if found is None else float(found)
            for info in self.locals["infos"]:
                if (episode := info.get("episode")) is not None:
                    run.report(
                        float(episode["r"]), int(episode["l"]), self.newest_loss, env_steps=self.model.num_timesteps
                    )
            return True

    return Reporter()


def _model(name: str, environment: EnvironmentSpec, seed: int, values: Mapping[str, Any]) -> Any:
    given = dict(values)
    policy, n_envs, normalize = given.pop("policy"), given.pop("n_envs"), given.pop("normalize")
    optimizer, policy_kwargs = given.pop("optimizer"), given.pop("policy_kwargs")
    check_at_least(1, n_envs=n_envs)
    made_class = _library_class(name)
    settings = _policy_arguments(policy_kwargs)
    if optimizer is not None:
        if "learning_rate" in optimizer:
            raise ConfigurationError(f"optimizer must not hold a learning_rate, got {optimizer!r}: set learning_rate.")
        settings["optimizer_class"], settings["optimizer_kwargs"] = torch_optimizer(OptimizerSpec.of(optimizer))
        if "use_rms_prop" in given:  # A2C would choose RMSprop instead
            given["use_rms_prop"] = False
    [library_seed] = integers(seed, "stable-baselines3", 1)  # it seeds copy i with its seed + i
    environments = _environments(environment, n_envs, normalize, given.get("gamma", 0.99))
    try:
        with warnings.catch_warnings():
            # A search tries sizes of minibatches that do not divide the rollout.
            warnings.filterwarnings("ignore", "You have specified a mini-batch size")
            return made_class(
                _policy_name(name, policy, environments.observation_space),
                environments,
                seed=library_seed,
                policy_kwargs=settings or None,
                **given,
            )
    except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
        environments.close()
        raise ConfigurationError(f"{SB3_PREFIX}{name} cannot be built with these hyperparameters: {error}") from error


def _environments(environment: EnvironmentSpec, n_envs: int, normalize: bool, gamma: float) -> Any:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    copies = DummyVecEnv([lambda: Monitor(environment.make_plain())] * n_envs)
    return VecNormalize(copies, gamma=gamma) if normalize else copies


def _policy_name(name: str, policy: str, space: Any) -> str:
    from gymnasium import spaces
    from stable_baselines3.common.preprocessing import is_image_space

    if policy != "auto":
        return policy
    kind = "MultiInput" if isinstance(space, spaces.Dict) else "Cnn" if is_image_space(space) else "Mlp"
    return f"{kind}{'Lstm' if name == 'RecurrentPPO' else ''}Policy"


def _policy_arguments(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return arguments of a policy class, with an activation that is named by its class in `torch.nn`."""
    settings = dict(given or {})
    activation = settings.get("activation_fn")
    if isinstance(activation, str):
        modules = {name.lower(): name for name in dir(import_torch().nn)}
        found = getattr(import_torch().nn, modules.get(activation.lower(), ""), None)
        if not (isinstance(found, type) and issubclass(found, import_torch().nn.Module)):
            raise ConfigurationError(f"activation_fn must be the name of a class in torch.nn, got {activation!r}.")
        settings["activation_fn"] = found
    return settings
