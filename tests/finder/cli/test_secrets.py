"""Tests that passwords and keys appear in no suggested command, run folder or process list."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.errors import ConfigurationError
from agents.shared_objects.sockets import Address
from finder.cli import session
from finder.long_run.run_folder import RunFolder, RunSettings
from studies.storage.commands import delete_command, storage_flag

URL = "postgresql://me:hunter2@127.0.0.1:1/db"
LABEL = "postgresql://me:***@127.0.0.1:1/db"


def test_suggested_commands_contain_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTUNA_STORAGE", raising=False)
    assert storage_flag(LABEL) == f" --storage '{LABEL}'"
    monkeypatch.setenv("OPTUNA_STORAGE", URL)
    assert storage_flag(LABEL) == ""
    assert delete_command("mine", LABEL) == "finder delete mine"


@pytest.mark.parametrize("given", [("--warm-start-storage", URL), (f"--warm-start-storage={URL}",)])
def test_study_records_its_command_without_the_password(given: tuple[str, ...]) -> None:
    words = session._origin(["tune", "ppo", "--storage", URL, "--warm-start", "before", *given]).words
    assert words[:4] == ("tune", "ppo", "--warm-start", "before")
    assert " ".join(words[4:]).replace("=", " ") == f"--warm-start-storage {LABEL}"


def test_run_folder_records_the_command_without_the_password(tmp_path: Path) -> None:
    settings = RunSettings(agent="ppo", env="CartPole-v1", env_steps=10, config={})
    folder = RunFolder.new(tmp_path / "run", settings, ["train", "--storage", URL, f"--storage={URL}"])
    folder.create()
    folder.begin(lambda: None)
    assert "hunter2" not in (tmp_path / "run" / "run.json").read_text()


def test_key_of_shared_objects_is_not_printed() -> None:
    assert "secret" not in repr(Address.of("secret@host:13"))
    with pytest.raises(ConfigurationError) as caught:
        Address.of("secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_process_list_does_not_show_the_password(finder: Any) -> None:
    """Check the command line of a waiting process, as other users of the machine see it."""
    run = (
        "import sys; print('begun', flush=True); sys.stdin.readline(); from finder.cli import process_list, main\n"
        "hide = process_list.hide_secrets\n"
        "import finder.cli.app as app\n"
        "def hidden(words):\n    hide(words); print('hidden', flush=True); sys.stdin.readline()\n"
        "app.hide_secrets = hidden\n"
        "sys.exit(main())"
    )
    words = ("studies", "--storage", URL)
    with subprocess.Popen(
        [sys.executable, "-c", run, *words], cwd=finder.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"  # before this, the command line may not exist yet
        shown = Path(f"/proc/{process.pid}/cmdline")
        assert "hunter2" in shown.read_text()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "hidden\n"
        assert "hunter2" not in shown.read_text()
        assert "me:*******@127.0.0.1" in shown.read_text()
        _, err = process.communicate("\n", timeout=120)
        assert process.returncode == 2
        assert "hunter2" not in err
        assert LABEL in err
