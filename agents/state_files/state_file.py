"""State files: written atomically, checked, and read without unpickling where possible.

A file is a ZIP archive, not compressed. `about.json` is its header. Each section of its state is `NAME.json` (the
structure) and `NAME.arrays` (NumPy arrays, one after the other); `NAME.pickle` has all other objects, if any (see
`agents.state_files.plain_state`). `signature.json` has the signature of its author (`agents.trust.signatures`).
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import cloudpickle
import numpy as np

from agents.state_files import old_state_file
from agents.state_files.plain_state import Array, joined, split
from agents.state_files.whole_file import replacing
from agents.trust.signatures import digest_of, is_signature_of, signature_of, trusts_all, untrusted

SUFFIX = ".checkpoint"

_ABOUT = "about.json"
_SIGNATURE = "signature.json"
_ARRAYS = ".arrays"
_WEIGHTS = "Its weights are read without that: --start-from, agents.load_weights."
_JOIN = 1 << 20
"""Bytes of arrays that are written at once: a rollout has thousands of small arrays."""


def write(path: Path, sections: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write a file atomically.

    Args:
        path: The file, in an existing folder.
        sections: Contents by name; each section is read separately. Any values that can be pickled.
        about: Header, as JSON values.

    Raises:
        OSError: The file cannot be written.
        Exception: Any error of pickling the state.
    """
    digests: dict[str, str] = {}
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:

        def put(name: str, data: bytes) -> None:
            digests[name] = digest_of(data)
            archive.writestr(name, data)

        for name, state in sections.items():
            tree, arrays, objects = split(state)
            if arrays:
                with archive.open(name + _ARRAYS, "w", force_zip64=True) as part:
                    _write_arrays(part, arrays)
            put(f"{name}.json", json.dumps(tree, separators=(",", ":")).encode())
            if objects:
                put(f"{name}.pickle", cloudpickle.dumps(objects))
        put(_ABOUT, json.dumps(about).encode())
        signed = json.dumps({"digests": digests, "signature": signature_of(digests)})
        archive.writestr(_SIGNATURE, signed)


def write_with_environments(write_one: Callable[[bool], None]) -> None:
    """Write a state with its environments, or without them if they cannot be pickled.

    Args:
        write_one: Writes the state; its argument says whether with environments.

    Raises:
        OSError: The file cannot be written.
        Exception: Any error of pickling the rest of the state.
    """
    try:
        write_one(True)
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - environments may raise anything when they are pickled
        write_one(False)


def read_header(path: Path) -> dict[str, Any] | None:
    """Return the header of a file; None if it is incomplete, or not a state file."""
    if (of_before := old_state_file.read_header(path)) is not None:
        return of_before
    try:
        with _opened(path) as archive:
            header = json.loads(archive.read(_ABOUT))
    except (*_DAMAGES, OSError):
        return None
    return header if isinstance(header, dict) else None


def is_signed_here(path: Path) -> bool:
    """Return whether this user's Finder wrote a file on this machine, except its arrays, so that its names are trusted.

    Raises:
        ValueError: The file has changed since it was written.
    """
    if old_state_file.read_header(path) is not None:
        return False
    with _opened(path) as archive:
        digests = _own_digests(archive)
        parts = {name for name in archive.namelist() if name != _SIGNATURE and not name.endswith(_ARRAYS)}
        return set(digests) == parts and all(digests[name] == digest_of(archive.read(name)) for name in parts)


class SignedSections(NamedTuple):
    """Sections of a file, and whether they are this user's."""

    values: dict[str, Any]
    """Name -> contents."""
    are_signed: bool
    """Whether this user's Finder wrote them on this machine, except their arrays, so that their names are trusted."""


def read(path: Path, names: Sequence[str], *, trust: bool = False) -> dict[str, Any] | None:
    """Return sections of a file; None for a file of an earlier version; see `read_signed`."""
    found = read_signed(path, names, trust=trust)
    return None if found is None else found.values


def read_signed(path: Path, names: Sequence[str], *, trust: bool = False) -> SignedSections | None:
    """Return sections of a file; None for a file of an earlier version (see `agents.state_files.old_state_file`).

    Only objects of files that this user's Finder wrote on this machine, or that are trusted, are unpickled. The
    signature is that of the bytes that were read: the file may be replaced at any time.

    Args:
        path: The file.
        names: Names of the sections.
        trust: Whether the file is trusted, whoever wrote it. Defaults to False; `FINDER_TRUST` trusts all.

    Raises:
        UntrustedFileError: A section cannot be read without unpickling, and the file is not trusted.
        ValueError: The file has changed since it was written.
        Exception: Any error of unpickling.
    """
    if old_state_file.read_header(path) is not None:
        return None
    with _opened(path) as archive:
        there = set(archive.namelist())
        digests = _own_digests(archive)
        read, are_signed = {}, True
        for name in names:
            data = {part: archive.read(f"{name}.{part}") for part in ("json", "pickle") if f"{name}.{part}" in there}
            ours = all(digests.get(f"{name}.{part}") == digest_of(own) for part, own in data.items())
            are_signed = are_signed and ours
            if "pickle" in data and not (ours or trust or trusts_all()):
                reason = f"holds objects as a pickle ({name}), which can run any code when it is read"
                raise untrusted(path, reason, "" if "agent.pickle" in there else _WEIGHTS)
            objects = cloudpickle.loads(data["pickle"]) if "pickle" in data else []
            read[name] = _joined(archive, name + _ARRAYS, json.loads(data["json"]), objects)
        return SignedSections(read, are_signed)


def read_of_before(path: Path, *, trust: bool = False) -> Any:
    """Return the state in a file of an earlier version, which is a pickle.

    Raises:
        UntrustedFileError: The file is not trusted.
        ValueError: The file has changed since it was written.
        Exception: Any error of unpickling.
    """
    if not (trust or trusts_all()):
        raise untrusted(path, "is of an earlier version, a pickle, which can run any code when it is read")
    return old_state_file.read(path)


_DAMAGES = (zipfile.BadZipFile, KeyError, ValueError, struct.error, zlib.error, EOFError, NotImplementedError)
"""Errors of reading a damaged file. (Objects are unpickled only if their checksum is correct.)"""


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive of `write`: nothing in it is larger than the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise ValueError("it is compressed, which Finder's are not")
            yield archive
    except zipfile.BadZipFile as error:
        raise ValueError("its checksum is wrong") from error


def _own_digests(archive: zipfile.ZipFile) -> Mapping[str, str]:
    """Return the digests of a file's parts if this user has signed them; none for other files."""
    try:
        content = json.loads(archive.read(_SIGNATURE))
        digests, signature = content["digests"], content["signature"]
        return digests if isinstance(digests, dict) and is_signature_of(signature, digests) else {}
    except (KeyError, TypeError, json.JSONDecodeError):
        return {}


def _write_arrays(part: IO[bytes], arrays: Iterable[Array]) -> None:
    small: list[bytes] = []
    size = 0
    for array in arrays:
        if array.nbytes < _JOIN:
            small.append(array.tobytes())
            size += array.nbytes
        if size >= _JOIN or array.nbytes >= _JOIN:
            part.write(b"".join(small))
            small, size = [], 0
        if array.nbytes >= _JOIN:
            part.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    part.write(b"".join(small))


def _joined(archive: zipfile.ZipFile, name: str, tree: Any, objects: Sequence[Any]) -> Any:
    if name not in archive.namelist():
        return joined(tree, _Arrays(None, 0), objects)
    with archive.open(name) as part:
        arrays = _Arrays(part, archive.getinfo(name).file_size)
        value = joined(tree, arrays, objects)
        if part.read(1):
            raise ValueError("it has more arrays than it names")
        return value


class _Arrays:
    """Read arrays one after the other, each into new memory."""

    def __init__(self, part: IO[bytes] | None, size: int) -> None:
        self._part, self._left = part, size

    def __call__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        n_bytes = dtype.itemsize
        for side in shape:
            if type(side) is not int or side < 0:
                raise ValueError(f"it has an array of the shape {shape}")
            n_bytes *= side
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError("it has fewer arrays than it names")
        array = np.empty(shape, dtype)
        if n_bytes:
            assert self._part is not None
            into = memoryview(array.reshape(-1).view(np.uint8).data)
            while into:
                n_read = self._part.readinto(into)  # type: ignore[attr-defined]
                if not n_read:
                    raise ValueError("it ends before its arrays do")
                into = into[n_read:]
        return array
