"""HTML page around figures: style for phone, desktop, light and dark mode, and the script that draws figures."""

from __future__ import annotations

import html
import secrets
import stat
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from studies.errors import StudyError

if TYPE_CHECKING:
    import plotly.graph_objects as go

# The page forbids every connection, so that a file opened from a mail cannot contact any server.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"

STYLE = """
:root { color-scheme: light dark; --ink: #1e293b; --soft: #64748b; --paper: #f8fafc; --card: #ffffff; --line: #e2e8f0;
  --accent: #e11d48; --code: #f1f5f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --paper: #0f172a; --card: #1e293b;
  --line: #334155; --accent: #fb7185; --code: #0f172a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55;
  font: 16px/1.55 -apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 1.6rem; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 40px 0 12px; }
.sub { color: var(--soft); margin: 0 0 24px; }
.answer { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--accent);
  border-radius: 8px; padding: 18px 20px; font-size: 1.08rem; margin: 0 0 28px; overflow-wrap: anywhere; }
.answer p { margin: 0 0 4px; }
.answer p:last-child { margin: 0; }
.answer.safe { border-left-color: #16a34a; }
.answer.tie { border-left-color: #d97706; }
.answer.front { border-left-color: #2563eb; }
.safe .status { color: #16a34a; }
.tie .status { color: #d97706; }
.front .status { color: #2563eb; }
.not-safe .status, .no-pick .status { color: var(--accent); }
.detail { margin: 0 0 28px; overflow-wrap: anywhere; }
.figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 8px 4px;
  margin: 0 0 20px; min-width: 0; overflow: hidden; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; padding: 9px 14px; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child > td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.pick td:first-child { box-shadow: inset 4px 0 0 var(--accent); font-weight: 600; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: 12px 14px; overflow-x: auto;
  font: 0.84rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; margin: 8px 0; }
summary { cursor: pointer; color: var(--soft); }
footer { color: var(--soft); font-size: 0.85rem; margin-top: 48px; }
@media (max-width: 600px) { main { padding: 20px 12px 48px; } h1 { font-size: 1.3rem; }
  .figure { padding: 8px 2px 2px; } th, td { padding: 8px 10px; } }
"""

SCRIPT = """
(function () {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const narrow = window.matchMedia('(max-width: 600px)');
  function themed(layout) {
    const copy = JSON.parse(JSON.stringify(layout));
    copy.paper_bgcolor = 'rgba(0,0,0,0)';
    copy.modebar = { bgcolor: 'rgba(0,0,0,0)', color: '#94a3b8', activecolor: '#64748b' };
    copy.font = Object.assign({}, copy.font, { color: dark.matches ? '#e2e8f0' : '#1e293b' });
    for (const key of Object.keys(copy)) {
      if (!/^[xy]axis/.test(key)) continue;
      copy[key].gridcolor = dark.matches ? '#334155' : '#e2e8f0';
      copy[key].linecolor = copy[key].tickcolor = dark.matches ? '#64748b' : '#94a3b8';
    }
    if (narrow.matches) {
      copy.margin = Object.assign({}, copy.margin, { l: 44, r: 10 });
      copy.font.size = 11;
    }
    return copy;
  }
  function draw() {
    for (const source of document.querySelectorAll('script[type="application/json"][data-figure]')) {
      const figure = JSON.parse(source.textContent);
      Plotly.react(source.dataset.figure, figure.data, themed(figure.layout), {
        responsive: true, displaylogo: false, displayModeBar: narrow.matches ? false : 'hover',
        modeBarButtons: [['toImage', 'zoom2d', 'pan2d', 'resetScale2d']] });
    }
  }
  draw();
  dark.addEventListener('change', draw);
  narrow.addEventListener('change', draw);
})();
"""


def page_html(title: str, sections: Sequence[str], figures: Mapping[str, go.Figure]) -> str:
    """Return a self-contained page with Plotly, about 5 MB.

    Args:
        title: Title as text.
        sections: Sections as HTML; a figure is drawn in the element with its id.
        figures: Id -> figure.
    """
    from plotly.offline import get_plotlyjs

    # Plotly's JSON escapes "<", so no label can end the script element; a test checks this.
    data = "\n".join(
        f'<script type="application/json" data-figure="{html.escape(name)}">{figure.to_json()}</script>'
        for name, figure in figures.items()
    )
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(sections)}</main>\n"
        f"{data}\n<script>{get_plotlyjs()}</script>\n<script>{SCRIPT}</script></body></html>\n"
    )


def write_page(text: str, path: str | PathLike[str], what: str) -> Path:
    """Write a page; an existing file is replaced atomically, and keeps its mode.

    Args:
        text: The page.
        path: The file.
        what: Name of the page, for errors.

    Returns:
        Absolute path of the file.

    Raises:
        StudyError: If the file cannot be written.
    """
    target = Path(path).expanduser()
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
    try:
        if target.is_dir():
            raise StudyError(f"the {what}'s path {str(target)!r} is a directory: give a file, such as {what}.html.")
        file = temporary.open("x", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"the {what} {str(target)!r} cannot be written: {error.strerror or error}.") from None
    try:
        with file:
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            file.write(text)
        temporary.replace(target)
    except OSError as error:  # such as a full disk
        temporary.unlink(missing_ok=True)
        raise StudyError(f"the {what} {str(target)!r} cannot be written: {error.strerror or error}.") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target.resolve()
