"""Gymnasium environments as a batch: made, seeded, checked, and with one convention at the end of an episode.

Agents see plain spaces (`transforms`). The successor of a step is always the true next observation, also where an
episode ended; where the next episode starts is told apart from it. How the copies are stepped (`sync`, `native`,
`pool`, `asynchronous`, `ray_copies`) makes no difference to the rest.
"""

from agents.environments.places import check_environment_id
from agents.environments.spec import EnvironmentSpec
from agents.environments.vector.batch import Environments, Step

__all__ = ["EnvironmentSpec", "Environments", "Step", "check_environment_id"]
