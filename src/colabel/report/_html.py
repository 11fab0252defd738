"""A page in one file: nothing is fetched, and it suits a phone, a screen, the dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --quiet: #5c6773; --page: #ffffff;
  --card: #f4f6f9; --line: #d9dfe6; --accent: #0072b2; --other: #d55e00; --good: #00735a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf1; --quiet: #a2adba; --page: #12171e;
  --card: #1c232d; --line: #333d4a; --accent: #56b4e9; --other: #f0914a; --good: #35c79f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .6rem; }
p { margin: .4rem 0; }
.quiet { color: var(--quiet); font-size: .9rem; }
.verdict { background: var(--card); border-left: .3rem solid var(--accent); padding: .8rem 1rem;
  border-radius: .4rem; margin: 1.25rem 0; }
.verdict b { font-size: 1.15rem; }
.verdict code { white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .6rem; }
.tile { background: var(--card); border-radius: .4rem; padding: .55rem .8rem; }
.tile b { display: block; font-size: 1.35rem; line-height: 1.3; }
.tile span { color: var(--quiet); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: .35rem 0 .35rem 1rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--page); }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 8.5rem; }
th { font-weight: 600; color: var(--quiet); white-space: normal; vertical-align: bottom; }
td small { color: var(--quiet); }
tr.best td:first-child { font-weight: 700; }
tr.base td { color: var(--quiet); }
.plot { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr 4.2rem;
  gap: .3rem .8rem; align-items: center; font-size: .92rem; }
.plot .track { position: relative; height: 1.2rem; background: var(--card);
  border-radius: .2rem; }
.plot .error { position: absolute; top: 50%; height: 2px; margin-top: -1px;
  background: var(--quiet); }
.plot .dot { position: absolute; top: 50%; width: .7rem; height: .7rem; margin: -.35rem;
  border-radius: 50%; background: var(--quiet); }
.plot .dot.best { background: var(--accent); }
.plot .bar { position: absolute; inset: 0 auto 0 0; background: var(--accent); opacity: .55;
  border-radius: .2rem; }
.plot .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.plot .name { overflow-wrap: anywhere; }
.plot .axis { display: flex; justify-content: space-between; color: var(--quiet);
  font-size: .8rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
ul.tree, ul.tree ul { list-style: none; padding-left: 0; margin: 0; }
ul.tree ul { margin-left: .7rem; }
ul.tree ul li { padding-left: 1.1rem; position: relative; }
ul.tree ul li::before { content: ""; position: absolute; left: 0; top: 0; width: .9rem;
  height: 1.05rem; border: solid var(--line); border-width: 0 0 2px 2px; }
ul.tree ul li:not(:last-child)::after { content: ""; position: absolute; left: 0; top: 1.05rem;
  bottom: 0; border-left: 2px solid var(--line); }
ul.tree .node { display: inline-block; background: var(--card); border-radius: .35rem;
  padding: .1rem .55rem; margin: .22rem 0; overflow-wrap: anywhere; }
ul.tree .gain { color: var(--quiet); font-size: .85rem; margin-left: .4rem; white-space: nowrap; }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; flex: 1 1 17rem; max-width: 24rem; }
figcaption { color: var(--quiet); font-size: .9rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--quiet); font-size: 13px; font-family: inherit; }
code { background: var(--card); border-radius: .25rem; padding: .1rem .3rem; font-size: .9em;
  overflow-wrap: anywhere; }
@media (max-width: 34rem) { .plot { grid-template-columns: 1fr 4.2rem; }
  .plot .name { grid-column: 1 / 3; margin-bottom: -.25rem; } .plot .spacer { display: none; } }
@media print { :root { --page: #fff; --ink: #000; --quiet: #444; --card: #f2f2f2; --line: #bbb;
  --accent: #0072b2; } body { font-size: 11pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; } figure, .verdict, tr { break-inside: avoid; }
  .scroll { overflow: visible; } th:first-child, td:first-child { position: static; }
  .tile, .track, .bar, .dot, .error, .node { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } td, th { padding: .2rem 0 .2rem .6rem; font-size: .8em; } }
"""


def page(title: str, body: str) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n"
        "</main>\n</body>\n</html>\n"
    )


def table(header: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a table; each row has a CSS class and cells that are HTML already."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = [
        f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        for kind, cells in rows
    ]
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def tiles(entries: Sequence[tuple[str, str]]) -> str:
    """Return numbers with what they count."""
    each = [
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in entries
    ]
    return f'<div class="tiles">{"".join(each)}</div>'


def dots(
    rows: Sequence[tuple[str, float, float, str, bool]], low: float, high: float, digits: int
) -> str:
    """Return a plot of points with error bars: (name, value, error, written, whether best)."""
    span = max(high - low, 1e-12)

    def place(value: float) -> float:
        return 100 * min(1.0, max(0.0, (value - low) / span))

    lines = []
    for name, value, error, written, best in rows:
        left, right = place(value - error), place(value + error)
        lines.append(
            f'<div class="name">{escape(name)}</div><div class="track">'
            f'<div class="error" style="left:{left:.2f}%;width:{right - left:.2f}%"></div>'
            f'<div class="dot{" best" if best else ""}" style="left:{place(value):.2f}%"></div>'
            f'</div><div class="value">{escape(written)}</div>'
        )
    axis = (
        f'<div class="spacer"></div><div class="axis"><span>{low:.{digits}f}</span>'
        f'<span>{high:.{digits}f}</span></div><div class="spacer"></div>'
    )
    return f'<div class="plot">{"".join(lines)}{axis}</div>'


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Return bars from 0 to 1: (name, share, written)."""
    lines = [
        f'<div class="name">{escape(name)}</div><div class="track">'
        f'<div class="bar" style="width:{100 * min(1.0, max(0.0, share)):.2f}%"></div></div>'
        f'<div class="value">{escape(written)}</div>'
        for name, share, written in rows
    ]
    return f'<div class="plot">{"".join(lines)}</div>'
