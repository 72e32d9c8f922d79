"""Hooks of mkdocs: pages that are generated from the code, and files of the repository that are pages of the site.

Sources link to each other as files of the repository do, so that they can be read there too; links are rewritten to the
pages of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import command_pages
import examples_pages
import hyperparameter_pages
import notebook_pages
import reference_pages
import room_diagram
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "benchmarks/head_to_head/README.md": "benchmarks/head_to_head.md",
    "benchmarks/picks/README.md": "benchmarks/picks.md",
    "benchmarks/searches/README.md": "benchmarks/searches.md",
    "benchmarks/training/README.md": "benchmarks/training.md",
    "benchmarks/learning/README.md": "benchmarks/learning.md",
    "benchmarks/imitation/README.md": "benchmarks/imitation.md",
    "benchmarks/pick.md": "benchmarks/pick.md",
    "benchmarks/pick-unseen.md": "benchmarks/pick-unseen.md",
    "benchmarks/head-to-head.md": "benchmarks/head-to-head.md",
    "benchmarks/results/designs.md": "benchmarks/designs.md",
    "benchmarks/results/finalists.md": "benchmarks/finalists.md",
    "benchmarks/results/baselines.md": "benchmarks/baselines.md",
    "benchmarks/results/rate-intervals.md": "benchmarks/rate-intervals.md",
    "benchmarks/results/estimators.md": "benchmarks/estimators.md",
    "benchmarks/results/intervals.md": "benchmarks/intervals.md",
    "benchmarks/results/gains.md": "benchmarks/gains.md",
    "benchmarks/results/stopped.md": "benchmarks/stopped.md",
    "benchmarks/results/drift.md": "benchmarks/drift.md",
}
"""File of the repository -> its page. Files of `docs/` are pages under their own names."""

_FOLDERS = {
    "commands/": command_pages.navigation,
    "examples/": lambda: examples_pages.navigation(ROOT),
    "tutorials/": lambda: notebook_pages.navigation(ROOT),
}
"""Folder in the navigation -> its entries."""

_LINK = re.compile(r"(?P<before>\]\(|<img src=\")(?P<target>[^)\"#\s]*)(?P<anchor>#[^)\"\s]*)?(?P<after>[)\"])")
_FENCE = re.compile(r"^(```.*?^```)$", re.M | re.S)
_DIAGRAM = re.compile(r"<!-- rooms: (\w+) -->")


def _generated() -> dict[str, str | bytes]:
    """Return the pages that are generated from the code, and pictures of notebooks."""
    return {
        **command_pages.pages(),
        **examples_pages.pages(ROOT),
        **hyperparameter_pages.pages(ROOT),
        **notebook_pages.pages(ROOT),
        **reference_pages.pages(ROOT),
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put generated pages into the navigation, where it names their folder."""
    config.nav = [_expanded(entry) for entry in config.nav]
    return config


def _expanded(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, value),) = entry.items()
    if isinstance(value, list):
        return {title: [_expanded(each) for each in value]}
    if value.startswith("reference/"):
        return {title: reference_pages.navigation(ROOT, value.split("/")[1])}
    return {title: _FOLDERS[value]()} if value in _FOLDERS else entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add generated pages, files of the repository that are pages, and their pictures."""
    for path, content in _generated().items():
        files.append(File.generated(config, path, content=content))
    for source, path in PAGES.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    for picture in (ROOT / "benchmarks").glob("*.png"):
        files.append(File.generated(config, f"benchmarks/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between files of the repository to links between pages, and draw diagrams of rooms."""
    path = page.file.src_uri
    sources = {pages_path: source for source, pages_path in PAGES.items()}
    source = sources.get(path, f"docs/{path}")

    def rewritten(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        found = _page_of(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if match["before"].startswith("<img"):  # mkdocs leaves HTML as it is
            found = posixpath.relpath(found, posixpath.dirname(page.file.dest_uri) or ".")
        else:
            found = posixpath.relpath(found, posixpath.dirname(path) or ".")
        return f"{match['before']}{found}{match['anchor'] or ''}{match['after']}"

    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(rewritten, part) for part in parts[::2]]
    return _DIAGRAM.sub(lambda match: room_diagram.drawn(ROOT, match[1]), "".join(parts))


def _page_of(source: str) -> str:
    """Return the path within the site's sources of a file of the repository."""
    if source in PAGES:
        return PAGES[source]
    if source.startswith("examples/"):
        return examples_pages.page_of(source)
    if source.endswith(".ipynb"):
        return notebook_pages.page_of(source)
    return source.removeprefix("docs/")
