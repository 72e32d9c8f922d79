"""A training function of the user's own as data: what is searched where there is no agent of ours.

The function trains whatever it likes in any way, and tells its run of every episode (`agents.training.training_run`)::

    def train(run, learning_rate: float = 3e-4, width: int = 64):
        environment = run.environment.make()
        ...
        run.report(episode_return=12.0, length=40)

Its hyperparameters are its parameters behind the first: their defaults are the configuration that it has by itself,
their annotations say what they may be. Where more is to be said of one, it is said as for the field of a config::

    learning_rate: Annotated[float, agents.Hyperparameter(help="Step size.", search=(1e-5, 1e-1), log=True)] = 3e-4

Parameters whose defaults are no plain values (functions, classes, objects) are the function's own business.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional, get_args, get_origin, get_type_hints

from agents.callbacks.callback import Callback, events_of
from agents.config.hyperparameters import METADATA, Config, Hyperparameter
from agents.contract.registry import training_function
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.training.function_trainer import EVENTS_TOLD, OwnTraining

if TYPE_CHECKING:
    from agents.training.training_run import TrainingRun

_Kind = inspect.Parameter
_PLAIN = (bool, int, float, str, type(None))
_TAKEN = ("agent",)
"""Names that a study has for something else; so are those of `Config`."""


@dataclass(frozen=True, repr=False)
class FunctionSpec(AgentSpec):
    """A training function and its parameters. `agent` is the function, ``"module:name"`` or ``"file.py:name"``."""

    @classmethod
    def of_function(cls, function: Any, environment: EnvironmentSpec, params: Mapping[str, Any]) -> FunctionSpec:
        """The spec of a function, or of a name that stands for one.

        Raises:
            ConfigurationError: It cannot be a training function, or has no parameter of a name.
        """
        found = training_function(function)
        assert found is not None
        return cls(function, environment, config_of(found).from_dict(params))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as what it was made of: its config's class was made here."""
        return FunctionSpec.of_function, (self.agent, self.environment, self.parameters)

    @property
    def label(self) -> str:
        return self.agent if isinstance(self.agent, str) else name_of_function(self.agent)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the function is called with, beside its run."""
        return {field.name: getattr(self.config, field.name) for field in dataclasses.fields(self.config)}

    @property
    def why_alone(self) -> str:
        return "it is a training function of your own."

    def check(self, strategy: str = "none") -> None:
        """Makes its environment once; the function itself is not called.

        Raises:
            ConfigurationError: There is no such environment, or a strategy was asked for.
        """
        if strategy != "none":
            self.refuse_functions(f"the strategy {strategy} cannot be put on it. Use tf.distribute inside of it.")
        self.environment.make().close()

    def check_callbacks(self, callbacks: Iterable[Callback]) -> None:
        for callback in callbacks:
            for event in events_of(callback):
                if event not in EVENTS_TOLD:
                    self.refuse_functions(
                        f"nobody tells {type(callback).__name__} of {event}, only of {', '.join(EVENTS_TOLD)}."
                    )

    def learner(self, seed: int, strategy: Any = None) -> OwnTraining:
        return OwnTraining(self, seed)

    def build(self, seed: int = 0, strategy: Any = None, interface: Any = None) -> NoReturn:
        """There is no agent to build.

        Raises:
            ConfigurationError: Says what to do instead.
        """
        self.refuse_functions(
            "there is no agent to build. Call it with an agents.TrainingRun, or search its parameters with tune."
        )

    def call(self, run: TrainingRun) -> None:
        """Runs it to its end."""
        function = training_function(self.agent)
        assert function is not None
        function(run, **self.parameters)

    def refuse_functions(self, why: str) -> NoReturn:
        raise ConfigurationError(
            f"{self.label} is a training function, which makes and trains its agent by itself: {why}"
        )


def name_of_function(function: Any) -> str:
    """What a function is called; a partial one as what it is a part of."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


def config_of(function: Callable[..., Any]) -> type[Config]:
    """The class of a training function's hyperparameters, made of its signature.

    Raises:
        ConfigurationError: It does not take a run, or a parameter that cannot be a hyperparameter.
    """
    name = name_of_function(function)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD):
        raise ConfigurationError(f"The training function {name} must take its run as the first argument: {name}(run).")
    hints = _hints(function)
    named = [each for each in parameters[1:] if each.kind not in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)]
    fields = [_field(name, each, hints) for each in named]
    made = dataclasses.make_dataclass(
        "FunctionConfig",
        [field for field in fields if field is not None],
        bases=(Config,),
        namespace={"owner": classmethod(lambda _: name)},
        frozen=True,
        kw_only=True,
    )
    try:
        made()
    except ConfigurationError as error:
        raise ConfigurationError(f"A default of the training function {name}: {error}") from error
    return made


def _field(owner: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The field of a parameter, None where it is no hyperparameter."""
    name, default = parameter.name, parameter.default
    told = f"The parameter {name!r} of the training function {owner}"
    if default is parameter.empty:
        raise ConfigurationError(f"{told} has no default: give it one, with which the function runs by itself.")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(f"{told} cannot be given by its name: put it behind the / in its signature.")
    if not _is_plain(default):
        return None
    if name in _TAKEN or hasattr(Config, name):
        raise ConfigurationError(f"{told} has a name that Finder needs itself: give it another one.")
    hint = hints.get(name, type(default) if isinstance(default, bool | int | float | str) else Any)
    about = Hyperparameter(help=f"A parameter of {owner}.", log=name == "learning_rate")
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        about = next((each for each in more if isinstance(each, Hyperparameter)), about)
    kind = hint if default is not None else Optional[hint]  # noqa: UP045 - the hint may be any object
    return name, kind, dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata={METADATA: about})


def _hints(function: Any) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)  # as `inspect.signature` does
    hints: dict[str, Any] = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: hint})
        with contextlib.suppress(NameError):  # of a name that is only imported for a type checker
            hints |= get_type_hints(alone, globalns=function.__globals__, include_extras=True)
    return hints


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)
