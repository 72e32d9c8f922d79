"""The compiled agent in which members are trained, and storage for the values of all of them."""

from __future__ import annotations

from agents.contract.keras_agent import KerasAgent
from agents.contract.spec import AgentSpec
from agents.errors import NotMappableError
from agents.population.inference import MemberInference
from agents.population.members import check_mappable
from agents.population.stacks import Stacks
from agents.population.update import MemberUpdate
from agents.updates.gradient_steps import GradientSteps
from agents.updates.state_layout import StateLayout


class CompiledTemplate:
    """One built and compiled agent in whose variables all members are trained, with storage for their values.

    Args:
        spec: The agent; its mutable hyperparameters are irrelevant.
        capacity: Largest number of members at a time.

    Raises:
        NotMappableError: The agent cannot be trained in a population.
    """

    def __init__(self, spec: AgentSpec, capacity: int) -> None:
        # Initial weights of the spec belong to the members, not to the template.
        built = AgentSpec(spec.agent, spec.environment, spec.config).build()
        if not isinstance(built, KerasAgent):
            raise NotMappableError(f"{type(built).__name__} is not a KerasAgent.")
        check_mappable(built)
        self.agent = built
        learnable = built.learnable()
        self.stacks = Stacks(StateLayout(built.state_variables(), learnable.groups()), capacity)
        acting = {name: network for name, network in built.networks.items() if name not in built.target_networks}
        self.inference = MemberInference(acting, self.stacks)
        steps = GradientSteps(learnable)
        self.update = MemberUpdate(steps, self.stacks, self.inference.watched, **built.compilation())
        self.structure = spec.structure()

    @property
    def capacity(self) -> int:
        """The largest number of members at a time."""
        return self.stacks.capacity


class TemplateCache:
    """A cache of compiled agents for the next cohorts of a process.

    Compilation takes seconds, and TensorFlow never frees all memory of a graph. Trials of one process that differ only
    in seeds, learning rates and other mutable hyperparameters therefore share compiled code. The cache keeps the newest
    structures.

    Args:
        keep: Number of compiled agents that are kept.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._templates: list[CompiledTemplate] = []

    def acquire(self, spec: AgentSpec, n_members: int) -> CompiledTemplate:
        """Remove and return a compiled agent with room for so many members; compile a new one if there is none.

        Raises:
            NotMappableError: The agent cannot be trained in a population.
        """
        structure = spec.structure()
        for template in self._templates:
            if template.structure == structure and template.capacity >= n_members:
                self._templates.remove(template)
                return template
        return CompiledTemplate(spec, n_members)

    def release(self, template: CompiledTemplate) -> None:
        """Return a compiled agent to the cache."""
        others = [other for other in self._templates if other.structure != template.structure]
        self._templates = [*others, template][-self._keep :]
