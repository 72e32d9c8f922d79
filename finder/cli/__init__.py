"""The command line: ``finder lr ppo --env CartPole-v1``.

Nothing heavy is imported here or while the commands are declared; each command imports what it needs when it runs,
so that ``finder --help`` answers at once and only the commands that train pay for TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and returns its exit code.

    Args:
        arguments: The command's words, without the program's name. Defaults to `None`: those of this process.

    Returns:
        0 when the job was done; 1 when a study stopped early or found nothing; 2 for a mistake in what was asked;
        130 after Ctrl-C.
    """
    from finder.cli.app import run

    return run(arguments)
