"""Folders of Minari datasets, by the name of a dataset or by their path. Minari is an optional dependency."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from types import ModuleType

from agents.errors import ConfigurationError

METADATA = "metadata.json"

_ID = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+")
_NAME = re.compile(r"(?:[-\w]+/)*[-\w]+")


def require_minari() -> ModuleType:
    """Return the module `minari`.

    Raises:
        ConfigurationError: Minari is not installed, or without the files' format (h5py).
    """
    try:
        import h5py  # noqa: F401 - the format of most datasets, which Minari imports when it reads one
        import minari
        import PIL  # noqa: F401 - which Minari needs for that format, and does not depend on
    except ImportError as error:
        raise ConfigurationError(
            f'Datasets of demonstrations need Minari ({error}): pip install "minari[hdf5]" pillow.'
        ) from None
    module: ModuleType = minari
    return module


def datasets_folder() -> Path:
    """Return the folder of all local datasets, Minari's: `MINARI_DATASETS_PATH`, or ``~/.minari/datasets``."""
    given = os.environ.get("MINARI_DATASETS_PATH")
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def local_datasets() -> list[str]:
    """Return the ids of all local datasets, in alphabetical order."""
    root, found = datasets_folder(), []
    for place, folders, _ in os.walk(root, followlinks=True):
        if _is_data(Path(place) / "data"):
            found.append(Path(place).relative_to(root).as_posix())
            folders.clear()  # no dataset is inside another one
        folders[:] = [folder for folder in folders if not folder.startswith(".")]
    return sorted(found)


def local_versions(name: str) -> dict[int, Path]:
    """Return the local versions of a dataset, and the folder of each.

    Args:
        name: The name of the dataset, without ``-vN``.
    """
    parent, stem = datasets_folder() / Path(name).parent, Path(name).name
    found = {int(path.name.rpartition("-v")[2]): path for path in parent.glob(f"{stem}-v*") if _ends(path.name, stem)}
    return dict(sorted(found.items()))


def data_folder(source: str | os.PathLike[str]) -> Path:
    """Return the folder with the data of a dataset.

    Args:
        source: The id of a local dataset (``"CartPole/expert-v0"``), its name (``"CartPole/expert"``: the newest
            version), or the path of its folder.

    Raises:
        ConfigurationError: There is no such dataset; the message has the nearest names.
    """
    text = os.fspath(source)
    path = Path(os.path.expanduser(text))
    named = _named(text)
    if named is not None:
        return named
    for data in (path / "data", path):
        if _is_data(data):
            return data
    if os.path.exists(path):
        raise ConfigurationError(f"{text!r} is no dataset of Minari: a dataset is a folder with data/{METADATA} in it.")
    raise ConfigurationError(_unknown(text))


def fixed_source(source: str | os.PathLike[str]) -> str:
    """Return the source of a dataset such that it stays the same one: with its version, or as an absolute path.

    Args:
        source: As in `data_folder`. A dataset of that name comes before a folder: ``./demos`` is always the folder.
    """
    text = os.fspath(source)
    path = Path(os.path.expanduser(text))
    named = _named(text)
    if named is not None:
        return named.parent.relative_to(datasets_folder()).as_posix()
    return str(path.resolve()) if os.path.isdir(path) else text


def _named(text: str) -> Path | None:
    """Return the data of a local dataset, by its id or its name; None if there is none."""
    if not _NAME.fullmatch(text):
        return None
    versions = {} if _ID.fullmatch(text) else local_versions(text)
    folders = [datasets_folder() / text, *reversed(versions.values())]
    return next((folder / "data" for folder in folders if _is_data(folder / "data")), None)


def _unknown(text: str) -> str:
    known = local_datasets()
    by_lower = {name.lower(): name for name in known}
    by_stem = {name.rpartition("-v")[0]: name for name in by_lower}
    near = difflib.get_close_matches(text.lower(), {**by_lower, **by_stem}, n=3, cutoff=0.6)
    names = dict.fromkeys(by_lower[by_stem.get(name, name)] for name in near)
    message = f"There is no dataset {text!r} in {datasets_folder()}, and no folder of that name."
    if names:
        message += f" Did you mean {' or '.join(names)}?"
    elif known:
        message += f" Datasets: {', '.join(known[:20])}{', …' if len(known) > 20 else ''}."
    if _ID.fullmatch(text):
        message += f" A public dataset of Minari is downloaded with: minari download {text}"
    return message


def _is_data(folder: Path) -> bool:
    return os.path.isfile(folder / METADATA)  # False also for paths that cannot be


def _ends(name: str, stem: str) -> bool:
    return name.startswith(f"{stem}-v") and name[len(stem) + 2 :].isdecimal()
