"""What a process leaves behind that is killed while it runs a study."""

from __future__ import annotations

from studies.claims import LEASE_SECONDS
from studies.owner import Owner
from studies.study import OpenStudy

NO_PROCESS = 2**22 + 7


def die(study: OpenStudy) -> None:
    """Makes what this process holds of a study that of another one on this machine, which is gone."""
    assert study.claims is not None
    study.claims.abandon()
    dead = str(Owner.new()._replace(pid=NO_PROCESS))
    for number, lease in study.storage.leases.held(study.episodes_key).items():
        study.storage.leases.take(study.episodes_key, number, dead, LEASE_SECONDS, instead_of=lease)
