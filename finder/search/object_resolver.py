"""Resolves the names of a study to agents, optimizers and environments, and checks that all can be built."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.callbacks.callback import make_callbacks, why_alone
from agents.config.agent_config import AgentConfig
from agents.config.hyperparameters import Config
from agents.config.optimizers import OptimizerSpec
from agents.contract.mutable_agent import MutableAgent
from agents.contract.registry import agent_class
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.distributed.strategies import StrategySpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.training.function_trainer import check_callbacks
from finder.search.changed_defaults import ChangedDefaults
from finder.search.default_metric import check_evaluable
from studies.spaces.conditions import assignments
from studies.spaces.rate_schedules import factor_of, schedules_in, stretched_config
from studies.spaces.space_notation import space_text
from studies.spaces.spaces import Fixed, Space, extremes
from studies.spec.metrics import metric_of
from studies.spec.objectives import names_of
from studies.spec.scheduler_names import pauses_trials
from studies.spec.spec import StudySpec

_SEARCHED_OPTIMIZERS = ("lr", "opt", "agents")
"""Kinds of studies whose trials differ in optimizers, rates and agents alone, not in the settings of agents."""


@dataclass(frozen=True, kw_only=True)
class ObjectResolver:
    """The objects that the names of a study stand for.

    Attributes:
        agents: Label -> agent.
        optimizers: Label -> optimizer, for optimizers whose label is not enough to build them.
        environment: The environment.
        callbacks: Factories of the callbacks of each run.
        why_alone: Why runs with these callbacks cannot be members of a population; empty if they can.
    """

    agents: Mapping[str, AgentSpec]
    optimizers: Mapping[str, OptimizerSpec]
    environment: EnvironmentSpec
    callbacks: tuple[Any, ...] = ()
    why_alone: str = ""

    @classmethod
    def of(
        cls,
        spec: StudySpec,
        *,
        agents: Mapping[str, AgentSpec] | None = None,
        optimizers: Mapping[str, OptimizerSpec] | None = None,
        environment: EnvironmentSpec | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> ObjectResolver:
        """Resolve every name of a study but those of given objects, which reports unknown names before trials run."""
        environment = environment or EnvironmentSpec.of_described(spec)
        environment = replace(environment, vectorization=spec.vectorization)
        found = dict(agents or {})
        for label in spec.agents:
            if label in found:
                continue
            if label in spec.agent_weights:
                raise ConfigurationError(f"The agent {label!r} starts from trained weights: give the agent itself.")
            found[label] = AgentSpec.of(_without_number(label, spec.agents), environment, spec.agent_params.get(label))
        makers = tuple(callbacks or spec.callbacks)
        made = make_callbacks(makers)  # to check them once
        for agent in found.values():
            check_callbacks(agent, made)
        return cls(
            agents=found,
            optimizers=dict(optimizers or {}),
            environment=environment,
            callbacks=makers,
            why_alone=why_alone(made),
        )

    def stepped_by(self, vectorization: str) -> ObjectResolver:
        """Return a copy with another vectorization of the environments."""
        if vectorization == self.environment.vectorization:
            return self
        environment = replace(self.environment, vectorization=vectorization)
        agents = {
            label: replace(agent, environment=replace(agent.environment, vectorization=vectorization))
            for label, agent in self.agents.items()
        }
        return replace(self, agents=agents, environment=environment)

    def with_recorded_defaults(self, changed: Sequence[ChangedDefaults]) -> ObjectResolver:
        """Return a copy whose agents have the defaults of earlier trials of the study."""
        agents = {each.label: self.agents[each.label].with_params(each.recorded) for each in changed}
        return replace(self, agents={**self.agents, **agents})

    def agent(self, params: Mapping[str, Any], default: str) -> AgentSpec:
        """Return the agent with the parameters of a trial."""
        rest = dict(params)
        agent = self.agents[rest.pop("agent", default)]
        if rest.get("optimizer") in self.optimizers:
            optimizer = self.optimizers[rest.pop("optimizer")]
            rest.setdefault("learning_rate", optimizer.learning_rate)
            rest["optimizer"] = optimizer
        return agent.with_params(rest)


def with_stretched_schedules(agent: AgentSpec, env_steps: int | None, long_run: int | None) -> AgentSpec:
    """Return the agent of a run of a study with its learning-rate schedules stretched to a run of another length.

    Args:
        agent: The agent.
        env_steps: Environment steps of each run of the study, None for a budget in episodes.
        long_run: Environment steps of the other run; None for the schedules as they are.
    """
    if isinstance(agent, FunctionSpec):
        return agent
    config = agent.config.to_dict()
    factor = factor_of(config, env_steps, long_run)
    if factor == 1.0 or not schedules_in(config):
        return agent
    longer = stretched_config(config, factor)
    return agent.with_params({name: longer[name] for name in ("learning_rate", "optimizers") if name in config})


def _without_number(label: str, labels: Sequence[str]) -> str:
    """Return the agent of a label, which has a number where a study compares several of one label (`sac`, `sac-2`)."""
    agent, dash, number = label.rpartition("-")
    return agent if dash and number.isdecimal() and agent in labels else label


def check_plan(spec: StudySpec, resolver: ObjectResolver) -> None:
    """Build the configuration of every value of a study, to report mistakes before the study starts."""
    StrategySpec.of(spec.strategy)
    _check_searched(spec)
    always = {*spec.fixed, *(name for name, space in spec.search_space().items() if not space.when)}
    for label in spec.agents:
        agent = resolver.agent({**spec.fixed, "agent": label}, label)
        agent.config.refuse_duplicates(always)
        _check_buildable(agent, spec.strategy)
        if isinstance(agent, FunctionSpec) and pauses_trials(spec.pruner):
            raise ConfigurationError(
                f"The scheduler {spec.pruner!r} pauses trials, and the training function {label!r} cannot be paused: "
                "use a scheduler that stops trials, such as 'successive-halving'."
            )
    if spec.kind in _SEARCHED_OPTIMIZERS and spec.fixed:
        configs = [resolver.agent({**spec.fixed, **row}, spec.agents[0]).config for row in spec.plan()]
        for name in spec.fixed:
            _check_effect(name, configs)
    greedy = [name for name in names_of(spec) if metric_of(name).n_episodes]
    if greedy:
        check_evaluable(greedy[0], resolver.agents.values(), resolver.environment, resolver.callbacks)
    spaces = spec.search_space()
    for name, space in spaces.items():
        if name == "agent":
            continue
        beside = assignments(name, spaces) if spec.plan() else _possible_beside(name, spaces)
        for value, others in itertools.product(extremes(space), beside):
            try:
                _check_value(name, value, others, spec, resolver)
            except ConfigurationError as error:
                owner = name.rpartition(".")[0]
                if owner in spaces and owner not in space.when and len(getattr(spaces[owner], "values", ())) > 1:
                    hint = f"Give {name} a condition, such as {name}={space_text(space)}@{owner}=NAME."
                    raise ConfigurationError(f"{error} {hint}") from error
                raise


def _possible_beside(name: str, spaces: Mapping[str, Space]) -> Iterator[dict[str, Any]]:
    """Yield the values of other parameters beside which a parameter must be possible.

    They are those of its conditions and, for an argument (`optimizer.momentum`), of what it belongs to.
    """
    owner = name.rpartition(".")[0]
    owners = getattr(spaces.get(owner), "values", ())
    for others in assignments(name, spaces):
        if owner in others or not owners:
            yield others
        else:
            yield from ({**others, owner: value} for value in owners)


def _check_searched(spec: StudySpec) -> None:
    """Raise `ConfigurationError` if all trials would be the same."""
    spaces = spec.search_space()
    fixed = [(name, space.value) for name, space in spaces.items() if isinstance(space, Fixed)]
    if spec.plan() or len(fixed) < len(spaces):
        return
    if not fixed:
        raise ConfigurationError(
            "Nothing is searched: give hyperparameters with ranges ([params] in a study file), such as "
            'learning_rate = "1e-5:1e-2:log".'
        )
    name, value = fixed[0]
    raise ConfigurationError(
        f"Nothing is searched: {name} has a single value. Give it a range or several values ({name}=low:high), or set "
        f"it for all trials (--set {name}={value}) and search others."
    )


def _check_effect(name: str, configs: Sequence[Config]) -> None:
    """Raise `ConfigurationError` if a setting of all trials has no effect in any of them."""
    errors = []
    for config in configs:
        try:
            config.refuse_without_effect([name])
        except ConfigurationError as error:
            errors.append(error)
        else:
            return
    raise errors[0]


def _check_buildable(agent: AgentSpec, strategy: str = "none") -> None:
    """Build an agent once, to report unsupported spaces and wrong arguments of optimizers.

    Other errors are ignored here, because the trials record their tracebacks.
    """
    try:
        agent.check(strategy)
    except ConfigurationError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
            reason = " ".join(str(error).split())[:200]
            raise ConfigurationError(
                f"The agent {agent.label!r} needs more memory than is free ({reason}): make its networks or its replay "
                "smaller."
            ) from error


def _check_value(name: str, value: Any, others: Mapping[str, Any], spec: StudySpec, resolver: ObjectResolver) -> None:
    """Check that at least one agent of the study accepts a value, beside those of other parameters that it needs."""
    owner = name.rpartition(".")[0]
    errors = []
    for label in [others["agent"]] if "agent" in others else spec.agents:
        params = {**spec.fixed, **others, "agent": label, name: value}
        try:
            agent = resolver.agent(params, label)
            config = agent.config
            # In a plan, the rows say which optimizer has which arguments.
            is_known = "optimizer" in others or "optimizer" not in spec.search_space()
            if (name == "optimizer" or (owner == "optimizer" and is_known)) and isinstance(config, AgentConfig):
                optimizer = OptimizerSpec(name=config.optimizer, arguments=config.optimizer_kwargs)
                agent_class(agent.agent).check_optimizer(optimizer)
                is_complete = not any(each != name and each.startswith("optimizer.") for each in spec.search_space())
                if is_complete and issubclass(agent_class(agent.agent), MutableAgent):
                    optimizer.refuse_without_effect()
            if owner not in ("", "optimizer"):  # the names of the optimizers are known after building the agent
                _check_buildable(resolver.agent(params, label))
        except ConfigurationError as error:
            errors.append(error)
        else:
            return
    raise errors[0]
