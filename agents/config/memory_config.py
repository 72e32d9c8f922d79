"""Hyperparameters of networks with memory."""

from __future__ import annotations

from dataclasses import dataclass

from agents.config.agent_config import hyperparameter
from agents.config.network_config import NetworkConfig
from agents.errors import ConfigurationError

LONGEST = 16
"""Default limit of the length of sequences, whose steps are unrolled."""


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(NetworkConfig):
    """Base class for configs of agents whose networks may have memory.

    It comes last among the bases of a config: of a field that several have, the default of the first base counts.
    """

    gru_units: int | None = hyperparameter(
        None,
        "Units of a GRU after the hidden layers, which remembers earlier observations of the episode; null: none.",
        low=1,
        added=True,
    )
    sequence_length: int | None = hyperparameter(
        None,
        "With gru_units: steps through which gradients flow back; null: as many as possible, up to 16.",
        low=1,
        when=lambda config: config.gru_units is not None,
        added=True,
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.sequence_length is not None and self.gru_units is None:
            raise ConfigurationError(
                f"sequence_length={self.sequence_length} needs gru_units: set it, or leave this out."
            )

    @property
    def memory_units(self) -> int:
        return self.gru_units or 0

    def steps_of_sequences(self, n_steps: int) -> int:
        """Return the length of sequences that divide rollouts of `n_steps`.

        Raises:
            ConfigurationError: `sequence_length` does not divide them.
        """
        if self.sequence_length is None:
            return max(length for length in range(1, LONGEST + 1) if n_steps % length == 0)
        if n_steps % self.sequence_length:
            raise ConfigurationError(
                f"sequence_length must divide n_steps = {n_steps}, got {self.sequence_length}: rollouts are split into "
                f"sequences."
            )
        return self.sequence_length
