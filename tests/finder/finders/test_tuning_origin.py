"""The origin that a call of `run_file` stores: what suggestions repeat, without secrets."""

from __future__ import annotations

from finder.finders.tuning import _origin_of


def test_passwords_are_not_stored() -> None:
    words = _origin_of("s.toml", {"warm_start": "old", "warm_start_storage": "postgresql://me:hunter2@host/db"}).words
    assert "postgresql://me:***@host/db" in words
    assert not any("hunter2" in word for word in words)
