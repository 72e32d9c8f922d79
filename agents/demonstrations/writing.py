"""New datasets of Minari: complete episodes, in a folder that appears when all of them are written."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from agents.demonstrations.folders import METADATA, datasets_folder, local_versions, require_minari
from agents.environments.transforms import parts_of, space_text
from agents.errors import ConfigurationError

LONGEST_NAME = 200
"""Largest number of characters in each part of a name, which is the name of a folder."""

_NAME = re.compile(r"(?P<stem>(?:[-\w]+/)*[-\w]+?)(?:-v(?P<version>\d+))?")
_DATA = "main_data.hdf5"


@dataclass
class EpisodeRecord:
    """The steps of an episode while it is played, in the spaces of the environment.

    Attributes:
        seed: Seed of its reset, None if the reset had none.
        observations: L + 1 observations, the first and the last one included.
        actions: L actions, like the following lists.
    """

    seed: int | None
    observations: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminations: list[bool] = field(default_factory=list)
    truncations: list[bool] = field(default_factory=list)


class DatasetWriter:
    """A new dataset of Minari, to which episodes are added one by one.

    A context manager. The dataset appears when the block ends: until then it is in a hidden folder beside the others.
    Where an error or Ctrl-C ends the block, the episodes that were added make the dataset, and the error has a note
    with its id. Without episodes there is no dataset. Images are stored as they are, without Minari's lossy
    compression.

    Args:
        name: Name of the dataset, ``"CartPole/expert"``: it gets the next free version, ``"CartPole/expert-v0"``. Or a
            name with the version, which must be free.
        observations: Observation space of the environment.
        actions: Action space of the environment.
        environment: Specification of the environment. None, or one that cannot be stored as JSON: the dataset has none.
        about: Further entries of the metadata, such as ``algorithm_name`` and ``description``.

    Attributes:
        id: Name and version of the dataset; "" as long as the block runs, and where there were no episodes.
        n_episodes: Number of episodes so far.
        n_steps: Number of their steps.

    Raises:
        ConfigurationError: Minari is not installed; a name that is none, or whose version exists; a space that Minari
            cannot store; or a folder that cannot be written.
    """

    def __init__(
        self,
        name: str,
        observations: gym.Space[Any],
        actions: gym.Space[Any],
        environment: EnvSpec | None,
        about: Mapping[str, Any],
    ) -> None:
        minari = require_minari()
        from minari.dataset.minari_storage import MinariStorage

        self.id, self.n_episodes, self.n_steps = "", 0, 0
        self._observations, self._actions = observations, actions
        self._stem, self._version = checked_name(name)
        root = datasets_folder()
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._growing = root / f".recording-{uuid.uuid4().hex}"
            self._growing.mkdir()
        except OSError as error:
            raise ConfigurationError(
                f"Datasets cannot be written to {root}: {error.strerror or error}. MINARI_DATASETS_PATH names their "
                f"folder."
            ) from error
        try:
            self._storage: Any = MinariStorage.new(
                self._growing / "data", observations, actions, storable(environment), jpeg_encoding=False
            )
            written = json.loads((self._growing / "data" / METADATA).read_text(encoding="utf-8"))
        except BaseException as error:
            shutil.rmtree(self._growing, ignore_errors=True)
            if isinstance(error, NotImplementedError):
                both = f"{space_text(observations)} and {space_text(actions)}"
                raise ConfigurationError(f"Minari cannot store one of the spaces {both}: {error}.") from error
            raise
        self._metadata = {**written, **about, "minari_version": minari.__version__}

    @property
    def folder(self) -> Path:
        """The folder of the dataset."""
        return datasets_folder() / self.id if self.id else self._growing

    def add(self, episode: EpisodeRecord) -> None:
        """Write a complete episode.

        Raises:
            ConfigurationError: The file cannot be written, for example because the disk is full.
        """
        from minari.data_collector import EpisodeBuffer

        columns = ("rewards", "terminations", "truncations")
        buffer = EpisodeBuffer(
            seed=episode.seed,
            observations=_batch(self._observations, episode.observations),
            actions=_batch(self._actions, episode.actions),
            infos={},  # Minari's own representation of an episode needs some
            **{name: np.asarray(getattr(episode, name)) for name in columns},
        )
        try:
            self._storage.update_episodes([buffer])
        except OSError as error:
            raise self._unwritable(error) from error
        self.n_episodes += 1
        self.n_steps += len(episode.rewards)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self.n_episodes:
                self._complete()
                if error is not None:
                    error.add_note(f"The {self.n_episodes} complete episodes before are the dataset {self.id!r}.")
        except OSError as failure:
            raise self._unwritable(failure) from failure
        finally:
            shutil.rmtree(self._growing, ignore_errors=True)

    def _unwritable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"The dataset {self._stem!r} cannot be written: {error}.")

    def _complete(self) -> None:
        self._drop_unfinished()
        data = self._growing / "data"
        size = round((data / _DATA).stat().st_size / 1e6, 1)
        counts = {"total_episodes": self.n_episodes, "total_steps": self.n_steps, "dataset_size": size}
        while True:
            version = self._version
            if version is None:
                version = max(local_versions(self._stem), default=-1) + 1
            id = f"{self._stem}-v{version}"
            (data / METADATA).write_text(json.dumps({**self._metadata, **counts, "dataset_id": id}), encoding="utf-8")
            place = datasets_folder() / id
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._growing.rename(place)  # fails where another process has written this version meanwhile
            except OSError:
                if self._version is not None or not place.exists():
                    raise
                continue
            self.id = id
            break
        self._describe_namespace()

    def _drop_unfinished(self) -> None:
        """Remove what an interrupted call of `add` has written."""
        import h5py

        with h5py.File(self._growing / "data" / _DATA, "a") as file:
            for name in set(file) - {f"episode_{i}" for i in range(self.n_episodes)}:
                del file[name]

    def _describe_namespace(self) -> None:
        """Write the file by which Minari knows the folders of a name, as it does for its own datasets."""
        from minari.namespace import create_namespace, list_local_namespaces

        namespace = self._stem.rpartition("/")[0]
        if namespace and namespace not in list_local_namespaces():
            with contextlib.suppress(ValueError):  # another process was faster
                create_namespace(namespace)


def check_new_dataset(name: str) -> None:
    """Check that a dataset of a name can be written, before something long begins.

    Raises:
        ConfigurationError: Minari is not installed, or see `checked_name`.
    """
    require_minari()
    checked_name(name)


def checked_name(name: str) -> tuple[str, int | None]:
    """Return the name of a new dataset without version, and its version; None: the next one that is free.

    Raises:
        ConfigurationError: A name that is none, the folder of another dataset in it, or a version that exists.
    """
    from minari.dataset.minari_dataset import parse_dataset_id

    match = _NAME.fullmatch(name)
    try:
        if match is None or max(map(len, name.split("/"))) > LONGEST_NAME:
            raise ValueError(name)
        parse_dataset_id(f"{match['stem']}-v0")  # Minari's rules are stricter
    except ValueError:
        raise ConfigurationError(
            f"{name!r} is no name of a dataset: write letters, digits, - and _, with folders as in CartPole/expert, "
            f"and with a version as in expert-v0 or without one."
        ) from None
    stem, version = match["stem"], match["version"]
    for parent in list(Path(stem).parents)[:-1]:  # without "."
        place = datasets_folder() / parent
        if (place / "data").exists():
            raise ConfigurationError(f"{name!r} cannot be in {parent.as_posix()!r}, which is a dataset itself.")
        if place.exists() and not place.is_dir():
            raise ConfigurationError(f"{name!r} cannot be in {str(place)!r}, which is a file.")
    versions = local_versions(stem)
    if version is not None and int(version) in versions:
        raise ConfigurationError(
            f"The dataset {name!r} exists already, and is not overwritten: leave out the version, which makes it "
            f"{stem}-v{max(versions) + 1}, or remove it first ({versions[int(version)]})."
        )
    return stem, None if version is None else int(version)


def storable(environment: EnvSpec | None) -> EnvSpec | None:
    """Return a specification that can be stored and read again, without render mode; None if there is none."""
    if environment is None:
        return None
    try:
        made = EnvSpec.from_json(environment.to_json())
    except (TypeError, ValueError):  # made by a function, or with arguments that are not JSON
        return None
    made.kwargs.pop("render_mode", None)
    return made


def _batch(space: gym.Space[Any], values: Sequence[Any]) -> Any:
    """Return values of a space as arrays [N, ...], in each of its parts."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        parts = {name: _batch(part, [value[name] for value in values]) for name, part in parts_of(space).items()}
        return parts if isinstance(space, gym.spaces.Dict) else tuple(parts.values())
    return list(values) if isinstance(space, gym.spaces.Text) else np.asarray(values, space.dtype)
