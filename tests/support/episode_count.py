"""Number of the episodes that a storage has of a study."""

from __future__ import annotations

from studies.storage.storage import StudyStorage


def n_episodes(storage: StudyStorage, key: str) -> int:
    """Return the number of episodes of a study, by its key."""
    return sum(map(len, storage.episodes.curves(key).values()))
