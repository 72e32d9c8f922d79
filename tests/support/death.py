"""Studies that another process runs, or ran until it crashed."""

from __future__ import annotations

from studies.coordination.lease_manager import LEASE_SECONDS, STUDY
from studies.coordination.owner import Owner
from studies.study.study import OpenStudy

NO_PROCESS = 2**22 + 7


def simulate_crash(study: OpenStudy) -> None:
    """Transfer the leases of this process on a study to a process of this machine that no longer exists."""
    assert study.leases is not None
    study.leases.abandon()
    dead = str(Owner.new()._replace(pid=NO_PROCESS))
    for number, lease in study.storage.leases.held(study.episodes_key).items():
        study.storage.leases.take(study.episodes_key, number, dead, LEASE_SECONDS, instead_of=lease)


def lease_to_another_process(study: OpenStudy) -> None:
    """Transfer the lease on a study to process 1, which always exists and is not this process."""
    assert study.leases is not None
    study.leases.close()
    another = Owner.new()._replace(pid=1, started="", token="another")
    assert study.storage.leases.take(study.episodes_key, STUDY, str(another), LEASE_SECONDS)
