"""The flags for trust: checkpoints of other users, and modules that studies may name."""

from __future__ import annotations

from typing import Annotated

import typer

AllowModule = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="Module or file whose code (environment, agent, callbacks, ...) a study of other users, or a file of "
        "other users, may name; repeatable. FINDER_ALLOW_MODULES lists further ones, separated by commas.",
        show_default=False,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Read a checkpoint of another user, which can run any code. Checkpoints that Finder wrote as this user "
        "are trusted. FINDER_TRUST=1 trusts all.",
    ),
]
