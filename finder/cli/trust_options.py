"""The flags that say what of other people's is trusted: files that run what they say, and modules that text names."""

from __future__ import annotations

from typing import Annotated

import typer

AllowModule = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="Module or file whose code may be named (environment, agent, callbacks, ...) by a study whose storage "
        "others may write to, or by a file from elsewhere; repeatable. FINDER_ALLOW_MODULES lists further ones, with "
        "commas.",
        show_default=False,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Read a checkpoint from elsewhere although that runs what it says. Files that Finder wrote here as this "
        "user need no trust. FINDER_TRUST=1 trusts all.",
    ),
]
