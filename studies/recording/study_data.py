"""Data of a study beside Optuna's trials: the key of its episodes, leases and files, and their deletion."""

from __future__ import annotations

import secrets
import shutil

from studies.coordination.lease_manager import LeaseManager
from studies.database.fencing import fenced
from studies.recording.spool import Spool
from studies.storage.storage import StudyStorage
from studies.study.checkpoint_folder import checkpoint_folder
from studies.study.study import EPISODES_ATTR

_OWNER_ATTR = "finder_episodes_owner"
"""Study attribute: id of the study that its key was made for. Copies have that of their original."""


def own_key(storage: StudyStorage, study_id: int) -> str | None:
    """Return the key of a study; None if it has none, or the key of the study from which Optuna copied it."""
    key = _key_of(storage, study_id)
    return key if key is not None and _sharing(storage, key)[0] == study_id else None


def create_key(storage: StudyStorage, study_id: int, name: str) -> str:
    """Return the key of the episodes, leases and files of a study that is run, and create it if it has none of its own.

    Keys are unique forever, so that files left from a deleted study are not used for the next one with its name. A copy
    that Optuna made has the key of its original, which may be run too: it gets a key of its own, with copies of the
    episodes of its trials. Trials that have not ended have no checkpoints under the new key and begin anew.
    """
    attributes = storage.optuna.get_study_user_attrs(study_id)
    if attributes.get(_OWNER_ATTR) == study_id:
        return str(attributes[EPISODES_ATTR])

    new = f"{name}#{secrets.token_hex(4)}"

    def created() -> str:
        key = own_key(storage, study_id)
        if key is None:
            key = new
            storage.episodes.delete(key)  # of an attempt that was interrupted
            _copy_episodes(storage, study_id, key)
        with fenced(leases.fence_of(None)):
            storage.optuna.set_study_user_attr(study_id, EPISODES_ATTR, key)
            storage.optuna.set_study_user_attr(study_id, _OWNER_ATTR, study_id)
        return key

    with LeaseManager(storage.leases, f"#{study_id}", others=storage.url != "memory") as leases:
        leases.start_renewing()
        return leases.plan(created)  # only one of several concurrent processes creates the key


def remove_study(storage: StudyStorage, study_id: int) -> None:
    """Delete a study and its data beside Optuna's trials, without checking for processes that run it.

    The study itself is deleted after its data: if this is interrupted, it can be repeated.
    """
    key = _key_of(storage, study_id)
    # Optuna copies studies with their keys, and optuna-dashboard renames them so: the data then belong to the copy.
    if key is not None and _sharing(storage, key) == [study_id]:
        storage.episodes.delete(key)
        folder = checkpoint_folder(storage.url, key)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        Spool(storage.url, key).forget()
        storage.optuna.delete_study(study_id)
        storage.leases.delete(key)  # until here, they keep other processes from running it
    else:
        storage.optuna.delete_study(study_id)


def _key_of(storage: StudyStorage, study_id: int) -> str | None:
    key = storage.optuna.get_study_user_attrs(study_id).get(EPISODES_ATTR)
    return None if key is None else str(key)


def _sharing(storage: StudyStorage, key: str) -> list[int]:
    """Return the ids of the studies with a key, the original first."""
    studies = storage.optuna.get_all_studies()
    return sorted(study._study_id for study in studies if str(study.user_attrs.get(EPISODES_ATTR, "")) == key)


def _copy_episodes(storage: StudyStorage, study_id: int, key: str) -> None:
    """Copy the episodes of the trials of a study from its present key, if it has one, to another key."""
    before = _key_of(storage, study_id)
    if before is None:
        return
    for trial in storage.optuna.get_all_trials(study_id, deepcopy=False):
        if records := storage.episodes.curve(before, trial.number):
            storage.episodes.add(key, [(trial.number, record) for record in records])
