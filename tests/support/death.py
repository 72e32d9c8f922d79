"""Studies that another process runs, or ran until it was killed."""

from __future__ import annotations

from studies.coordination.lease_manager import LEASE_SECONDS, STUDY
from studies.coordination.owner import Owner
from studies.study.study import OpenStudy

NO_PROCESS = 2**22 + 7


def die(study: OpenStudy) -> None:
    """Makes what this process holds of a study that of another one on this machine, which is gone."""
    assert study.leases is not None
    study.leases.abandon()
    dead = str(Owner.new()._replace(pid=NO_PROCESS))
    for number, lease in study.storage.leases.held(study.episodes_key).items():
        study.storage.leases.take(study.episodes_key, number, dead, LEASE_SECONDS, instead_of=lease)


def run_by_another(study: OpenStudy) -> None:
    """Has process 1 run a study, which is always there, and is not this one."""
    assert study.leases is not None
    study.leases.close()
    another = Owner.new()._replace(pid=1, started="", token="another")
    assert study.storage.leases.take(study.episodes_key, STUDY, str(another), LEASE_SECONDS)
