"""Tests of user code that cannot be imported, raises, or ends the process: one message, exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mistakes import Mistake, check, ids, write_all

FILES: dict[str, str | bytes] = {
    "syntax.py": "import agents\n\nclass X(agents.KerasAgent:\n    pass\n",
    "raises.py": "import agents\n\nraise RuntimeError('no licence')\n",
    "divides.py": "RATE = 1 / 0\n",
    "exits.py": "import sys\n\nsys.exit(0)\n",
    "exits3.py": "raise SystemExit('enough')\n",
    "imports.py": "import no_such_package\n",
    "relative.py": "from . import nothing\n",
    "latin.py": b"NAME = '\xe9'\n",
    "zeros.py": b"\x00\x00\x00",
    "odd.py": "class Odd(BaseException): pass\nraise Odd('strange')\n",
    "blank.py": "",
    "deep.py": "X = " + "(" * 500 + ")" * 500 + "\n",
    "package/__init__.py": "1 / 0\n",
    "folder.py/inside.txt": "a folder whose name is that of a file",
    "numbers.txt": "1",
    "ends.py": (
        "import sys\nimport agents, gymnasium as gym\nfrom agents.algorithms.ppo import PPO\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n"
        "class Env(CartPoleEnv):\n    def __init__(self, **_):\n        sys.exit(4)\n\n"
        "class Resets(CartPoleEnv):\n    def reset(self, **_):\n        raise ValueError('no world')\n\n"
        "class Callback(agents.Callback):\n    def __init__(self):\n        sys.exit(5)\n\n"
        "class Raises(agents.Callback):\n    def __init__(self):\n        raise KeyError('where')\n\n"
        "class Wrapper(gym.Wrapper):\n    def __init__(self, env):\n        sys.exit(6)\n\n"
        "class Wraps(gym.Wrapper):\n    def __init__(self, env):\n        raise ValueError('no wrap')\n\n"
        "class Agent(PPO):\n    def __init__(self, *_, **__):\n        sys.exit(7)\n\n"
        "NOTHING = 3\n\n"
        "class Spaceless(gym.Env):\n    action_space = gym.spaces.Discrete(2)\n"
    ),
    "study.toml": 'name = "x"\nagents = ["syntax.py:X"]\nenv = "CartPole-v1"\nenv_steps = 100\n',
    "env.toml": 'name = "x"\nagents = ["ppo"]\nenv = "exits.py:X"\nenv_steps = 100\n',
    "callback.toml": 'name = "x"\nagents = ["ppo"]\nenv = "CartPole-v1"\ncallbacks = "raises.py:X"\nenv_steps = 100\n',
}

MESSAGES = {
    "syntax.py:X": ("syntax.py", "line 3"),
    "raises.py:X": ("RuntimeError: no licence", "line 3"),
    "divides.py:X": ("ZeroDivisionError: division by zero", "line 1"),
    "exits.py:X": ("exits.py calls sys.exit(0)", "__main__"),
    "exits3.py:X": ("exits3.py calls sys.exit('enough')", "__main__"),
    "imports.py:X": ("No module named 'no_such_package'", "line 1"),
    "relative.py:X": ("relative.py cannot be imported: ImportError", "line 1"),
    "latin.py:X": ("latin.py", "SyntaxError"),
    "zeros.py:X": ("zeros.py", "null bytes"),
    "odd.py:X": ("Odd: strange", "line 2"),
    "blank.py:X": ("blank.py has nothing called 'X'", "in it"),
    "deep.py:X": ("deep.py", "nested parentheses"),
    "package:X": ("module 'package' cannot be imported: ZeroDivisionError", "Correct it"),
    "folder.py:X": ("folder.py", "no Python file"),
    "nowhere.py:X": ("nowhere.py", "no Python file"),
    "no_such_package:X": ("no_such_package", "No module named"),
    "numbers.txt:X": ("numbers.txt", "No module named"),
}

USES = {
    "agent": "lr {} --env CartPole-v1",
    "environment": "lr ppo --env {}",
    "callback": "lr ppo --env CartPole-v1 --callback {}",
    "wrapper": "lr ppo --env CartPole-v1 --wrapper {}",
}

IMPORTED = [
    Mistake(use.format(place), value, advice)
    for use in USES.values()
    for place, (value, advice) in MESSAGES.items()
    if not (place == "blank.py:X" and "--env CartPole-v1 --" in use)
]

ELSEWHERE = [
    Mistake("train syntax.py:X --env CartPole-v1", "syntax.py", "line 3"),
    Mistake("train ppo --env exits.py:X", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("train ppo --env CartPole-v1 --callback raises.py:X", "RuntimeError: no licence", "line 3"),
    Mistake("train ppo --env CartPole-v1 --wrapper divides.py:X", "ZeroDivisionError", "line 1"),
    Mistake("lr dqn --env CartPole-v1 --set policy=raises.py:X", "RuntimeError: no licence", "line 3"),
    Mistake("lr dqn --env CartPole-v1 --set policy=exits.py:X", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("opt ppo --env CartPole-v1 --optimizer divides.py:X", "ZeroDivisionError", "line 1"),
    Mistake("opt ppo --env CartPole-v1 --optimizer exits.py:X", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("agents ppo odd.py:X --env CartPole-v1", "Odd: strange", "line 2"),
    Mistake("tune exits.py:X --env CartPole-v1", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("lr ppo --range-test --env exits.py:X", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("run study.toml", "syntax.py", "line 3"),
    Mistake("run env.toml", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("run callback.toml", "RuntimeError: no licence", "line 3"),
    Mistake("submit study.toml", "syntax.py", "line 3"),
    Mistake("submit env.toml", "exits.py calls sys.exit(0)", "__main__"),
]

ENDING = [
    Mistake("lr ppo --env ends.py:Env", "ended the process (SystemExit: 4)", "ends.py, line 8"),
    Mistake("train ppo --env ends.py:Env", "ended the process (SystemExit: 4)", "ends.py, line 8"),
    Mistake("lr ppo --env CartPole-v1 --callback ends.py:Callback", "SystemExit: 5", "ends.py, line 16"),
    Mistake("lr ppo --env CartPole-v1 --callback ends.py:Raises", "'where'", "ends.py:Raises"),
    Mistake("lr ppo --env CartPole-v1 --callback ends.py:NOTHING", "ends.py:NOTHING", "agents.Callback"),
    Mistake("lr ppo --env CartPole-v1 --wrapper ends.py:Wrapper", "SystemExit: 6", "ends.py, line 24"),
    Mistake("lr ppo --env CartPole-v1 --wrapper ends.py:Wraps", "ValueError: no wrap", "ends.py:Wraps"),
    Mistake("lr ppo --env CartPole-v1 --wrapper ends.py:NOTHING", "ends.py:NOTHING", "neither a class nor a function"),
    Mistake("lr ends.py:Agent --env CartPole-v1", "ended the process (SystemExit: 7)", "ends.py, line 32"),
    Mistake("lr ends.py:NOTHING --env CartPole-v1", "ends.py:NOTHING", "agents.Agent"),
    Mistake("lr ends.py:Env --env CartPole-v1", "ends.py:Env", "agents.Agent"),
    Mistake("lr ppo --env ends.py:Spaceless", "'ends.py:Spaceless' must have a", "observation_space, it has None"),
    Mistake("train ppo --env ends.py:Spaceless", "ends.py:Spaceless' must have a", "set it in __init__"),
    Mistake("lr ppo --env ends.py:NOTHING", "ends.py:NOTHING", "neither a class nor a function"),
]

ALL = [*IMPORTED, *ELSEWHERE, *ENDING]


def create_files(folder: Path) -> None:
    """Create the files that the commands name."""
    write_all(folder, FILES)


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_mistake_is_reported_in_one_line(finder: Any, case: Mistake) -> None:
    create_files(finder.folder)
    check(case, *finder(*case.words))
    storage = finder.folder / "finder.db"
    assert not storage.exists() or finder("studies", "--json").json == []
