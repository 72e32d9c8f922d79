"""The folder of a long run: its settings, its result and its files."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from agents.errors import ConfigurationError
from agents.state_files.whole_file import remove_unfinished, replacing
from agents.trust.allowed_modules import restrict_to_names
from agents.trust.signatures import is_signature_of, signature_of, trusts_all
from studies.redaction import redacted
from studies.words import call_lines, class_or_id

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec

log = logging.getLogger(__name__)

_FORMAT = 1
_FILE = "run.json"
_PACKAGES = ("agentfinder", "tensorflow", "keras", "gymnasium", "numpy")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a long run, with which the run also resumes.

    Attributes:
        agent: The agent: a name, module:Class or file.py:Class.
        config: All hyperparameters.
        env: The id of the environment.
        env_kwargs: Arguments of the environment.
        wrappers: Wrappers of the environment, as `agents.EnvironmentSpec` takes them.
        max_episode_steps: Step limit of episodes; None for the limit of the environment.
        vectorization: How the environments are stepped.
        seed: Seed of everything.
        env_steps: Budget in environment steps, from the beginning; or None.
        episodes: Budget in episodes, from the beginning; or None.
        target_reward: Mean return of the last 100 episodes that ends the run, or None.
        evaluate_every: Interval of evaluations (`agents.Every`), None for none.
        evaluate_episodes: Number of episodes of an evaluation.
        eval_max_steps: Step limit of evaluation episodes (`agents.Evaluate`); None for its default.
        checkpoint_every: Interval of checkpoints. None for every minute, or with `best_only` after every evaluation.
        keep: Number of the newest checkpoints to keep.
        best_only: Whether only the best checkpoints are written.
        weights_only: Whether checkpoints hold weights only.
        plateau: Checks without improvement before the learning rate is lowered (`agents.ReduceOnPlateau`); or None.
        plateau_factor: Factor of the learning rate at a plateau.
        min_learning_rate: Lower limit of the learning rate.
        early_stop: Checks without improvement before the run ends (`agents.EarlyStopping`); or None.
        patience_from: Environment steps before the first check.
        tensorboard: Whether to write a log for TensorBoard.
        callbacks: Factories of further callbacks: module:Class or file.py:Class.
        info_metrics: Names of numbers in the `info` of the last step of episodes that are recorded as custom metrics.
        strategy: Distribution strategy (`agents.distributed.strategies`).
        pool: Number of processes that step the environments; None for the process of the run.
        hang_seconds: Time limit of an environment step and of an update; 0 for no limit.
        study: Name, storage and trial of the pick that is trained; or None.
        schedule: Pairs of environment steps and the hyperparameters that are set there
            (`agents.HyperparameterSchedule`).
    """

    agent: str
    config: dict[str, Any]
    env: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    max_episode_steps: int | None = None
    vectorization: str = "auto"
    seed: int = 0
    env_steps: int | None = None
    episodes: int | None = None
    target_reward: float | None = None
    evaluate_every: str | None = None
    evaluate_episodes: int = 10
    eval_max_steps: int | None = None
    checkpoint_every: str | None = None
    keep: int = 3
    best_only: bool = False
    weights_only: bool = False
    plateau: int | None = None
    plateau_factor: float = 0.9
    min_learning_rate: float = 0.0
    early_stop: int | None = None
    patience_from: int = 0
    tensorboard: bool = False
    callbacks: tuple[str, ...] = ()
    info_metrics: tuple[str, ...] = ()
    strategy: str = "none"
    pool: int | None = None
    hang_seconds: float = 600.0
    study: dict[str, Any] | None = None
    schedule: tuple[tuple[int, dict[str, float]], ...] = ()

    def agent_spec(self) -> AgentSpec:
        """Return the agent, without initial weights.

        Raises:
            ConfigurationError: The agent or environment cannot be found, or the agent is a training function.
        """
        from agents.contract.spec import AgentSpec
        from agents.environments import EnvironmentSpec

        environment = EnvironmentSpec.of_described(self, self.vectorization)
        spec = AgentSpec.of(self.agent, environment, self.config)
        lines = call_lines(self.agent, self, self.config)
        spec.refuse_functions(f"it cannot be trained in a folder. Call it yourself:\n\n{lines}")
        return spec


class RunFolder:
    """The folder of a run.

    Args:
        path: The folder.
        settings: Settings of the run.
        result: The last result as JSON values; None before the end of the run.
        command: Words of the command that started the run.
        is_signed: Whether the settings were written by Finder as this user. Defaults to True.
    """

    def __init__(
        self,
        path: Path,
        settings: RunSettings,
        result: Mapping[str, Any] | None,
        command: Sequence[str],
        *,
        is_signed: bool = True,
    ) -> None:
        self.path = path
        self.settings = settings
        self.result = result
        self._command = list(command)
        self._is_signed = is_signed

    @classmethod
    def new(cls, path: Path, settings: RunSettings, command: Sequence[str] = ()) -> RunFolder:
        """Return the folder of a new run, which `create` creates.

        Raises:
            ConfigurationError: The folder exists and is not empty.
        """
        with _named_os_errors(path, "read"):
            there = next(each for each in (path, *path.absolute().parents) if each.exists())
            has_run, free = (path / _FILE).exists(), not path.exists() or (path.is_dir() and not any(path.iterdir()))
        if not there.is_dir():
            raise ConfigurationError(
                f"{str(path)!r} cannot be created: {str(there)!r} is not a folder. Give another one."
            )
        if has_run:
            raise ConfigurationError(
                f"{str(path)!r} has a run already: resume it (--resume {path}), or give another folder."
            )
        if not free:
            raise ConfigurationError(f"{str(path)!r} is not empty: give a folder of the run's own.")
        return cls(path, settings, None, [redacted(word) for word in command])

    def create(self) -> None:
        """Create the folder.

        Raises:
            ConfigurationError: The folder cannot be created.
        """
        with _named_os_errors(self.path, "written to"):
            self.path.mkdir(parents=True, exist_ok=True)

    def begin(self, keep: Callable[[], Any]) -> None:
        """Write the settings; call it within `locked`.

        Args:
            keep: Writes the first checkpoint, before the settings make the run resumable.

        Raises:
            ConfigurationError: Another run has started in the folder, or the folder cannot be written to.
        """
        if (self.path / _FILE).exists():
            raise ConfigurationError(f"Another run has just started in {str(self.path)!r}: give a folder (--folder).")
        with _named_os_errors(self.path, "written to"):
            keep()
            self._write()

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the folder of an existing run.

        Raises:
            ConfigurationError: There is no run, its settings are damaged, or another version has written them.
        """
        try:
            stored = json.loads((path / _FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigurationError(f"{str(path)!r} is no folder of a run: it has no {_FILE}.") from None
        except OSError as error:
            raise ConfigurationError(f"{path / _FILE} cannot be read: {error.strerror or error}.") from None
        except (ValueError, RecursionError) as error:
            raise _damaged(path, str(error)) from None
        if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
            raise _damaged(path, "it does not describe a run")
        known = {each.name for each in fields(RunSettings)}
        if stored.get("format") != _FORMAT or not set(stored["settings"]) <= known:
            raise ConfigurationError(
                f"{path / _FILE} has format {stored.get('format')}, and this version of Finder reads format {_FORMAT}."
            )
        try:
            settings = pydantic.TypeAdapter(RunSettings).validate_python(stored["settings"])
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            reason = "is missing" if first["type"] == "missing" else f"is {first['input']!r}: {first['msg'].lower()}"
            raise _damaged(path, f"{name} {reason}") from None
        result, command = stored.get("result"), stored.get("command", ())
        if not (result is None or (isinstance(result, dict) and "reason" in result)) or isinstance(command, str):
            raise _damaged(path, f"its result is {result!r}")
        return cls(
            path, settings, result, command, is_signed=is_signature_of(stored.get("signature"), stored["settings"])
        )

    def trusted_code(self, allowed: Iterable[str], *, trust: bool) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the settings may name allowed modules only; all modules if this user wrote them.

        Args:
            allowed: Modules and files.
            trust: Whether to trust settings of other users.
        """
        return restrict_to_names(self.path / _FILE, allowed, trusted=self._is_signed or trust or trusts_all())

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """Folder of the log for TensorBoard."""
        return self.path / "tensorboard"

    def write_result(self, result: Mapping[str, Any] | None) -> None:
        """Write the result (None while the run continues) and the present settings."""
        self.result = result
        self._write()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes.

        Raises:
            ConfigurationError: Another process has locked the folder.
        """
        with _named_os_errors(self.path, "written to"):
            lock = (self.path / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(f"Another process trains in {str(self.path)!r} at this moment.") from None
            except OSError as error:  # a network file system without locks
                log.warning("%s cannot be locked (%s): start no other training in it.", self.path, error)
            remove_unfinished(self.path)
            yield

    def _write(self) -> None:
        settings = json.loads(json.dumps(asdict(self.settings)))
        stored = {
            "format": _FORMAT,
            "settings": settings,
            "signature": signature_of(settings),
            "result": self.result,
            "command": self._command,
            "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        }
        with replacing(self.path / _FILE, for_all=True) as file:
            file.write(json.dumps(stored, indent=2, ensure_ascii=False).encode())


def _damaged(folder: Path, reason: str) -> ConfigurationError:
    """Return the error for a folder whose settings cannot be read."""
    return ConfigurationError(
        f"{folder / _FILE} is damaged ({reason}), and it is the only file with the settings. The weights are in the "
        f"checkpoints: finder train AGENT --env ID --start-from {folder}"
    )


@contextlib.contextmanager
def _named_os_errors(folder: Path, what: str) -> Iterator[None]:
    """Convert an `OSError` to a `ConfigurationError` that names the folder and the operation."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{str(folder)!r} cannot be {what}: {error.strerror or error}.") from None


def free_folder(settings: RunSettings) -> Path:
    """Return an unused default folder such as `runs/ppo-CartPole-v1-seed0`, with a number appended if needed."""
    agent = settings.agent.rpartition(":")[2]
    name = re.sub(r"[^\w.-]+", "-", f"{agent}-{class_or_id(settings.env)}-seed{settings.seed}")
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path
