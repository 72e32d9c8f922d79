"""The live display and the terminal that it is shown on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from terminals import in_terminal

PROGRAM = """
import termios
from finder.progress.console import display
from finder.progress.guarded_live import GuardedLive

def keeps_output():
    return bool(termios.tcgetattr(0)[3] & termios.NOFLSH)

seen = [keeps_output()]
live = GuardedLive(lambda: "frame", display(), lambda error: None)
live.start()
seen.append(keeps_output())
live.stop()
seen.append(keeps_output())
print("keeps output:", seen)

modes = termios.tcgetattr(0)  # as somebody may have set it
modes[3] |= termios.NOFLSH
termios.tcsetattr(0, termios.TCSANOW, modes)
live.start()
live.stop()
live.stop()
print("keeps output as before:", keeps_output())
"""


@pytest.mark.real
def test_interrupt_drops_no_output_while_a_display_lasts(tmp_path: Path) -> None:
    shown = in_terminal([sys.executable, "-c", PROGRAM], tmp_path, columns=80)

    assert shown.code == 0, shown.text
    assert "keeps output: [False, True, False]" in shown.text
    assert "keeps output as before: True" in shown.text
