"""Python code that starts the long run with the pick of a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from studies.analysis.recommendation import Recommendation, optimizer_call
from studies.analysis.schedules import schedule_lines
from studies.spaces.rate_schedules import factor_of, schedules_in, stretch_text, stretched_config
from studies.words import LONG_RUN, call_lines, environment_code, environment_comment, settings_of

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

_OF_OPTIMIZER = ("optimizer", "learning_rate")
"""Parameters that `studies.best_optimizer` replaces."""


def python_lines(study: OpenStudy, pick: Recommendation) -> str:
    """Return the lines of Python that start the long run with the pick."""
    steps = study.spec.horizon or LONG_RUN
    if pick.own_training:
        return call_lines(pick.agent, pick, pick.config, env_steps=steps)
    # A study in memory ends with its process, and cannot be read again.
    has_optimizer = list(pick.optimizers) == ["default"] and study.storage.url != "memory"
    schedules = schedules_in(pick.config)
    stretching = stretch_text(pick.config, study.spec.env_steps, steps)
    stretched_to = steps if factor_of(pick.config, study.spec.env_steps, steps) != 1.0 and schedules else None
    lines = [f"# {stretching}"] if stretching else []
    lines += [f"optimizer = {optimizer_call(study, stretched_to)}"] if has_optimizer else []
    lines.append(f"agent = agents.make({', '.join(_arguments(study, pick, has_optimizer))})")
    followed = schedule_lines(pick.schedule, study.spec.env_steps, steps).splitlines()
    imports, made = _callbacks(study.spec.callbacks)
    callbacks = [*made, *(["schedule"] if followed else [])]
    given = f", callbacks=[{', '.join(callbacks)}]" if callbacks else ""
    lines += [*followed, f"agents.Trainer(agent{given}).train(env_steps={steps:_})"]
    modules = "agents, studies" if has_optimizer else "agents"
    modules = f"os, {modules}" if any("os.environ" in line for line in lines) else modules
    own = "" if pick.is_agent_named else f"# {_class_of(pick)}: the agent of your script"
    head = [f"import {modules}", *imports, *filter(None, [own, environment_comment(pick.env)])]
    return "\n".join([*head, "", *lines])


def _callbacks(places: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines that import the callbacks of a study, and the expressions that make them."""
    imports, made = [], []
    for place in places:
        where, _, name = place.rpartition(":")
        module = where.removesuffix(".py")
        if where in ("", "__main__"):
            imports.append(f"# {name}: a callback of your script")
        elif all(part.isidentifier() for part in module.split(".")):
            imports.append(f"from {module} import {name.partition('.')[0]}")
        else:
            imports.append(f"# {name}: a callback of {where}")
        made.append(f"{name}()")
    return imports, made


def _class_of(pick: Recommendation) -> str:
    """Return the name of a class that was given in Python; agents with a learned reward have prefixes (`gail-Mine`)."""
    return pick.agent.replace("-", "_")


def _arguments(study: OpenStudy, pick: Recommendation, has_optimizer: bool) -> list[str]:
    """Return the arguments of `agents.make`: the agent, the environment, and all given and found parameters.

    Learning-rate schedules are stretched to the long run.
    """
    own, found = study.spec.agent_params.get(pick.name_in_study, {}), pick.long_run_params
    if "gamma" in pick.config:  # a function may have a parameter with the name of a complement
        found = settings_of(found)
    rest: dict[str, Any] = {
        name: value
        for name, value in {**own, **study.spec.fixed, **found}.items()
        if name != "agent" and not (has_optimizer and (name in _OF_OPTIMIZER or name.startswith("optimizer.")))
    }
    if not has_optimizer and (schedules := schedules_in(pick.config)):
        factor = factor_of(pick.config, study.spec.env_steps, study.spec.horizon or LONG_RUN)
        longer = stretched_config(pick.config, factor)
        rest |= {"learning_rate": longer["learning_rate"]} if "" in schedules else {}
        rest |= {"optimizers": longer["optimizers"]} if schedules.keys() - {""} else {}
    arguments = [repr(pick.agent) if pick.is_agent_named else _class_of(pick), environment_code(pick)]
    if has_optimizer:
        arguments.append("optimizer=optimizer")
    arguments += [f"{name}={value!r}" for name, value in rest.items() if name.isidentifier()]
    dotted = {name: value for name, value in rest.items() if not name.isidentifier()}
    return [*arguments, f"**{dotted!r}"] if dotted else arguments
