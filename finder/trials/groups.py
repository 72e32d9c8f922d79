"""Groups of runs that are trained by one trainer: a population, or a single agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from agents.callbacks.callback import Callback, make_callbacks
from agents.callbacks.hyperparameter_schedule import HyperparameterSchedule
from agents.collection.collector import Collector
from agents.contract.agent import Agent
from agents.errors import NotMappableError
from agents.population import CompiledTemplate, Population, TemplateCache
from agents.processes.hanging import under_way
from agents.training.function_trainer import FunctionTrainer, OwnTraining, learner_of
from agents.training.records import Episode
from agents.training.run import Budget
from agents.training.trainer import Trainer
from finder.trials.evaluations import GreedyEvaluations
from finder.trials.exchange import divergences_state, load_divergences, replace_diverged
from finder.trials.execution import jit_compile_of
from finder.trials.runs import Key, SeededTrial, SeedRun, TrialRun
from finder.trials.trial import Work
from finder.trials.watchdog import COMPILING_SECONDS, Watchdog, WatchdogCallback
from studies.spec.objectives import greedy_episodes_of

ALIVE_SECONDS = 5.0
"""Seconds between heartbeats of a group within a step of its loop."""


class Group(Callback):
    """Runs that are trained by one trainer: the members of a population, or a single agent.

    Args:
        runs: Trial and seed of each run; run i is member i of the learner.
        learner: The population, agent or training function.
        template: The compiled agent of a population; None for a single agent.
        keys: Trial and seed of every member of a group that resumes from a checkpoint (`load`), some of whose members
            run elsewhere or have ended; `runs` has None for these. Defaults to those of `runs`.
    """

    last = True  # callbacks of the user add custom metrics to an episode first

    def __init__(
        self,
        runs: Sequence[SeededTrial | None],
        learner: Population | Agent | OwnTraining,
        template: CompiledTemplate | None,
        keys: Sequence[Key] | None = None,
    ) -> None:
        there = [(member, *run) for member, run in enumerate(runs) if run is not None]
        spec = there[0][1].spec
        self.info_metrics = tuple(metric.name for metric in there[0][1].metrics if metric.name)
        self._watchdog = Watchdog(spec.hang_seconds, self._hangs, self._heartbeat_meanwhile)
        changes = [() if run is None else run[0].spec.schedule for run in runs]
        # One for each member, also for those that run elsewhere: checkpoints know callbacks by their order.
        schedules = [
            HyperparameterSchedule(own, member=None if len(runs) == 1 else member)
            for member, own in enumerate(changes)
            if any(changes)
        ]
        # Callbacks of the user see the present numbers.
        callbacks = [*schedules, *make_callbacks(spec.callbacks), WatchdogCallback(self._watchdog), self]
        self.trainer: Trainer | FunctionTrainer = (
            learner.trainer(callbacks, waiting=self._heartbeat)
            if isinstance(learner, OwnTraining)
            else Trainer(learner, spec.agent.environment, callbacks=callbacks)
        )
        self.keys = tuple(keys or [(trial.spec.number, seed) for _, trial, seed in there])
        self.runs = {member: SeedRun(trial, seed, self, member) for member, trial, seed in there}
        self.error: Exception | None = None
        self.learner = learner
        """The population, agent or training function."""
        self._template = template
        self._budget = Budget(env_steps=spec.env_steps, episodes=spec.episodes)
        self._loop = self.trainer.iterate(self._budget)
        self._last_heartbeat = time.monotonic()
        self._alive_seconds = min(ALIVE_SECONDS, spec.hang_seconds / 4) if spec.hang_seconds else ALIVE_SECONDS
        self.alive: Callable[[], str | None] = lambda: None
        """Called regularly within a step of the loop; may return a reason to stop."""
        self.hangs: Callable[[Sequence[int], str], None] = lambda numbers, reason: None
        """Called by another thread when this one hangs in compiled code, with the numbers of the trials that may be the
        cause and a message."""
        self.alive_meanwhile: Callable[[], None] = lambda: None
        """Called regularly by another thread while this one may be busy."""
        self.exchanged_at = 0
        """Environment steps of the newest exchange between the members (`copy_member`); 0 before the first."""
        self.evaluations: GreedyEvaluations | None = None
        """The evaluations of the runs, if the study is judged by them."""
        if (n_greedy := greedy_episodes_of(spec)) and isinstance(self.trainer, Trainer):
            self.evaluations = GreedyEvaluations(self.trainer, n_greedy, self._evaluated_step)
        self._exchanges = bool(spec.exchanges)
        if self._exchanges and isinstance(self.trainer, Trainer):
            self.trainer.replace_failed = self._replace_diverged
        self._before_step = self._passed = 0
        """Environment steps before the newest step of the loop, here and at loading."""
        self._ended = self._is_stepping = False
        self.seconds_before = 0.0
        """Seconds of training in the checkpoint from which it resumes."""
        self.work: Work | None = None
        """Its training, but for the first part, which contains the compilation; None before the end of that."""
        self._described: dict[int, Agent | OwnTraining] = {}

    @property
    def info_names(self) -> frozenset[str]:
        """Names of the numbers in the `info` of episodes that have ended, if a metric of the study is one of these."""
        collector = self.trainer.collector if isinstance(self.trainer, Trainer) else None
        return frozenset(collector.info_names) if isinstance(collector, Collector) else frozenset()

    @property
    def vectorization(self) -> str:
        """How the environments are stepped."""
        trainer = self.trainer
        return trainer.collector.environments.kind if isinstance(trainer, Trainer) else trainer.vectorization

    @property
    def n_members(self) -> int:
        """Number of runs that are trained together."""
        return len(self.runs)

    @property
    def jit_compile(self) -> bool | None:
        """True if XLA compiles updates where it pays; None if that is unknown."""
        return jit_compile_of(self.learner) if self._template is None else self._template.update.jit_compile

    def describe(self, member: int) -> Agent | OwnTraining:
        """Return an agent with the hyperparameters of a member. Call it before the first step."""
        if member in self._described:
            return self._described[member]
        return self.learner.describe(member) if isinstance(self.learner, Population) else self.learner

    @property
    def finished(self) -> bool:
        """Return whether all members have ended."""
        return self._ended or self.error is not None or self._budget.steps_reached(self.trainer.env_steps)

    @property
    def has_learned(self) -> bool:
        """True if the members have made gradient steps."""
        return isinstance(self.trainer, Trainer) and self.trainer.agent.gradient_steps > 0

    def has_finished(self, member: int) -> bool:
        """Return whether a member has used its budget."""
        return self.finished or self._budget.episodes_reached(self.trainer.runs[member])

    def is_before(self, mark: int) -> bool:
        """Return whether the group must continue to reach this environment step."""
        return not self.finished and self.trainer.env_steps < mark

    def step(self) -> None:
        """Run one step of the training loop. An exception ends all runs of the group."""
        if self.evaluations is not None:
            over = {member for member, run in enumerate(self.trainer.runs) if self._budget.is_over(run)}
            self._evaluate(over.intersection(self.trainer.present), self.trainer.env_steps)  # before they leave
        if self.error is not None:
            return
        try:
            self._before_step = self.trainer.env_steps
            with self._watchdog.watching():
                self._is_stepping = True
                self._ended = next(self._loop, None) is None
                if self._exchanges:
                    self._replace_diverged()
                self._is_stepping = False
        except Exception as error:  # noqa: BLE001 - whatever a user's agent or environment raises is a trial's failure
            self.error = error

    def add_work(self, seconds: float, steps: int) -> None:
        """Record the time in which each run has made so many environment steps, if it has; the first time compiles."""
        if not steps:
            return  # a report before its checkpoint
        n_runs = max(1, len(self.trainer.present))
        self.work = Work() if self.work is None else self.work.plus(Work(seconds, steps, steps * n_runs))

    def evaluate(self, mark: int) -> None:
        """Evaluate the members at a report, if the study is judged by evaluations. An exception ends all runs.

        A report that a group passed before its checkpoint was written, and had none at, is not made up for.
        """
        if self.evaluations is not None and self._passed < mark <= self.trainer.env_steps:
            self._evaluate(self.trainer.present, mark)

    def _evaluate(self, members: Collection[int], at: int) -> None:
        """Evaluate those members that need a value at an environment step, with all others that are present."""
        runs = {member: self.runs[member] for member in members if member in self.runs}
        due = {
            member: run for member, run in runs.items() if not (run.trial.ended or run.error or run.is_evaluated(at))
        }
        if not due or self.evaluations is None:
            return
        try:
            with self._watchdog.watching():
                self._watchdog.feed(COMPILING_SECONDS)
                values = self.evaluations.values()
        except Exception as error:  # noqa: BLE001 - see `step`
            self.error = error
            return
        for member, run in due.items():
            if member in values:
                run.add_evaluation(at, values[member])

    def _evaluated_step(self) -> None:
        self._watchdog.feed()
        self._heartbeat()

    @property
    def active_members(self) -> list[int]:
        """Members that are trained or have finished, without those that were removed because their trials ended."""
        there, all_runs = set(self.trainer.present), self.trainer.runs
        done = {member for member, run in enumerate(all_runs) if run.error or self._budget.episodes_reached(run)}
        return [member for member, run in self.runs.items() if member in there | done or not run.trial.ended]

    @property
    def failed_members(self) -> list[int]:
        """Members whose runs have failed."""
        return [member for member, run in self.runs.items() if run.error is not None]

    @property
    def alone(self) -> bool:
        """Return whether the group is a single agent instead of a population."""
        return not isinstance(self.learner, Population)

    @property
    def can_checkpoint(self) -> bool:
        """Return whether the group can resume from a checkpoint; not a running training function or an unended step."""
        return isinstance(self.trainer, Trainer) and not self._is_stepping

    @property
    def not_mappable(self) -> bool:
        """Return whether training has shown that the agent cannot be a member of a population."""
        return isinstance(self.learner, Population) and isinstance(self.error, NotMappableError)

    @property
    def trials(self) -> list[TrialRun]:
        """The trials of the runs."""
        return list(dict.fromkeys(run.trial for run in self.runs.values()))

    def remove_member(self, member: int, reason: str) -> None:
        """Stop a member whose trial has ended."""
        if not self.finished and not self.trainer.runs[member].over:
            self.trainer.stop(reason, member)

    def copy_member(self, source: int, target: int, values: Mapping[str, float]) -> None:
        """Give a member the state of another one, and set its hyperparameters."""
        assert isinstance(self.trainer, Trainer)
        self.trainer.copy_member(source, target)
        if self.evaluations is not None:
            self.evaluations.forget()
        self.trainer.set_hyperparameters(values, target)
        self.runs[target].divergence = None

    def _replace_diverged(self) -> None:
        assert isinstance(self.trainer, Trainer)
        replace_diverged(self.trainer, self.runs, self.exchanged_at)

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        self.runs[episode.member].add_episode(episode)

    def on_step_end(self, trainer: Trainer) -> None:
        self._heartbeat()

    def _heartbeat(self) -> str | None:
        if time.monotonic() - self._last_heartbeat <= self._alive_seconds:
            return None
        self._last_heartbeat = time.monotonic()
        with self._watchdog.suspended():  # a storage that does not answer is no hang of the trial
            return self.alive()

    def _heartbeat_meanwhile(self) -> None:
        """Send a heartbeat from the thread of the watchdog, while this thread may be compiling."""
        if time.monotonic() - self._last_heartbeat > self._alive_seconds:
            self._last_heartbeat = time.monotonic()
            self.alive_meanwhile()

    def _hangs(self, reason: str) -> None:
        """Report from the thread of the watchdog that this thread hangs."""
        position, present = under_way.position, self.trainer.present
        if position is not None and position < len(present):
            suspects = [self.runs[present[position]].trial]
        else:
            suspects = [trial for trial in self.trials if not trial.ended]
        self.hangs([trial.spec.number for trial in suspects], reason)

    def get_state(self) -> dict[str, Any]:
        """Return the step of the newest exchange, divergences since then, and the evaluations so far (`set_state`)."""
        state: dict[str, Any] = {"exchanged_at": self.exchanged_at} if self.exchanged_at else {}
        if diverged := divergences_state(self.runs):
            state["diverged"] = diverged
        if self.evaluations is not None:
            state["before_step"] = self._before_step
            state["evaluations"] = [(member, *own) for member, run in self.runs.items() for own in run.evaluations]
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned, as far as it is of members that run here."""
        self.exchanged_at = state.get("exchanged_at", 0)
        self._before_step = self._passed = state.get("before_step", 0)
        load_divergences(self.runs, state.get("diverged", ()))
        for member, at, value in state.get("evaluations", ()):
            if member in self.runs:
                self.runs[member].add_evaluation(at, value)

    def load(self, state: dict[str, Any]) -> None:
        """Resume from the trainer state of a group with the same members. Call it before the first step."""
        assert isinstance(self.trainer, Trainer)
        self._described = {member: self.describe(member) for member in self.runs}  # while all members are present
        self.trainer.set_state(state, members=self.runs)
        self.trainer.callbacks.set_state(state.get("callbacks", {}))
        self.seconds_before = self.trainer.wall_seconds
        for member, run in self.runs.items():
            for episode in self.trainer.runs[member].history.episodes:
                run.add_episode(episode)

    def close(self, templates: TemplateCache) -> None:
        """End the loop, close the environments and release the compiled agent."""
        self._watchdog.close()
        self._loop.close()
        self.trainer.close()
        if self._template is not None:
            templates.release(self._template)


def group_by_structure(trials: Sequence[TrialRun]) -> list[list[TrialRun]]:
    """Group trials that can be members of one population."""
    groups: dict[tuple[Any, ...], list[TrialRun]] = {}
    for trial in trials:
        agent = trial.spec.agent
        groups.setdefault((*agent.structure(), id(agent.state)), []).append(trial)
    return list(groups.values())


def make_groups(runs: Sequence[SeededTrial], templates: TemplateCache) -> Iterator[Group]:
    """Yield one group for a population, or a group for each run if there cannot be a population.

    Raises:
        Exception: The agent of a population cannot be built. See `single_run_groups` for those that are trained alone.
    """
    try:
        yield _population_of(runs, runs, templates)
    except NotMappableError:
        yield from single_run_groups(runs)


def single_run_groups(runs: Sequence[SeededTrial]) -> Iterator[Group]:
    """Yield a group for each run. A trial whose agent cannot be built gets the error, and no further group."""
    for trial, seed in runs:
        if trial.error is not None:
            continue
        try:
            group = _single_run_group(trial, seed)
        except Exception as error:  # noqa: BLE001 - any error of an agent or environment is a failure of its trial
            trial.error = error
        else:
            yield group


def _single_run_group(trial: TrialRun, seed: int) -> Group:
    return Group([(trial, seed)], learner_of(trial.spec.agent, seed, trial.spec.strategy), None)


def restore_group(
    keys: Sequence[Key], runs: Collection[SeededTrial], templates: TemplateCache, *, alone: bool
) -> Group:
    """Rebuild the group of a checkpoint, of which only some runs continue; see `Group.load`.

    Args:
        keys: Trial and seed of every member of the group.
        runs: The runs that continue, at least one.
        templates: The cache of compiled agents.
        alone: Whether the group was a single agent instead of a population.

    Raises:
        NotMappableError: The agent cannot be trained in a population any more.
    """
    if alone:
        [(trial, seed)] = runs
        return _single_run_group(trial, seed)
    by_key = {(trial.spec.number, seed): (trial, seed) for trial, seed in runs}
    members = [by_key.get(key) for key in keys]
    some = next(iter(by_key.values()))
    return _population_of([run or some for run in members], members, templates, keys)


def _population_of(
    like: Sequence[SeededTrial],
    runs: Sequence[SeededTrial | None],
    templates: TemplateCache,
    keys: Sequence[Key] | None = None,
) -> Group:
    spec = like[0][0].spec
    agent = spec.agent
    if agent.why_alone or spec.why_alone:
        raise NotMappableError(agent.why_alone or spec.why_alone)
    if spec.strategy != "none":
        raise NotMappableError("its strategy splits the minibatches of one agent.")
    template = templates.acquire(agent, len(like))
    hyperparameters = [{**trial.spec.agent.config.to_dict(), "seed": seed} for trial, seed in like]
    return Group(runs, Population(agent, hyperparameters, template=template), template, keys)
