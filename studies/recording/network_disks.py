"""Detection of storage files on network file systems, which several machines must not use at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = {
    "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs",
}  # fmt: skip
"""Types of file systems that several machines mount, also with the prefix `fuse.`."""


def note_on_network_disks(paths: Iterable[Path]) -> str:
    """Return a note on the files that are on a network file system; "" if none is.

    SQLite keeps its index of a running transaction in memory that processes of one machine share.

    Args:
        paths: The files.
    """
    for path in paths:
        kind = _file_system_of(path)
        if kind in _NETWORK:
            return (
                f"{path} is on a network file system ({kind}), where nothing prevents two machines from damaging it: "
                "use it on one machine at a time, and finder serve, PostgreSQL or MySQL for several."
            )
    return ""


def _file_system_of(path: Path) -> str:
    """Return the type of the file system of a path; "" if it is unknown."""
    try:
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:  # not on Linux
        return ""
    place, found = path.resolve(), ("", "")
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
        if place.is_relative_to(point) and len(point) >= len(found[0]):
            found = point, rest.partition(" ")[0].removeprefix("fuse.")
    return found[1]
