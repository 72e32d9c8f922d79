"""The flags of a search about trials that are known before it begins."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

_option = functools.partial(typer.Option, show_default=False, rich_help_panel="The start")

First = Annotated[
    list[str] | None,
    _option(
        metavar="SET or FILE",
        help="Try these parameters before the sampler proposes any: gamma=0.95,n_epochs=5; a .toml or .json "
        "file with such sets; or zoo: the values that rl-baselines3-zoo tuned for this agent and environment. Without "
        "--param, zoo is the default where such values exist; none turns it off. May be repeated.",
    ),
]
WarmStart = Annotated[
    str | None,
    _option(
        metavar="STUDY",
        help="Try the best trials of another study first; the sampler learns from all of its trials that this study "
        "could have run.",
    ),
]
WarmStartStorage = Annotated[
    str | None, _option(metavar="STORAGE", help="Storage of that study (default: the same storage).")
]
WarmStartTrials = Annotated[
    int | None, _option(min=0, help="How many of its trials are tried first (default 5, or as many as fit).")
]
