"""Gymnasium environments as a batch: creation, seeding, checks, and one convention for the end of an episode.

Agents see plain spaces (`transforms`). The successor of a step is always the true next observation, also where an
episode ended; the first observation of the next episode is a separate field. All kinds of vector environment (`vector`)
follow the same convention.
"""

from agents.environments.places import check_environment_id
from agents.environments.spec import EnvironmentSpec
from agents.environments.vector.batch import Environments, Step

__all__ = ["EnvironmentSpec", "Environments", "Step", "check_environment_id"]
