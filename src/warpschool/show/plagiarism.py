"""The plagiarism report as a page: each pair side by side, what they share marked, every text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpschool.grading.plagiarism import AlikePair
from warpschool.show.page import escape, page

_STYLE = """<style>
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin-bottom: 2rem; }
.pair mark { background: color-mix(in srgb, var(--hot) 35%, transparent); text-decoration: none; display: inline-block;
  min-width: 100%; }
</style>"""
_ABOUT = (
    "Kernels that are alike after names, numbers, comments and layout are taken away, and without what the starter "
    "gave or most of the class wrote. This is a list to look at, not a finding: short kernels have few right forms, "
    "and people may have been allowed to work together. Nothing here changes a score."
)


def report(found: Mapping[str, Sequence[AlikePair]], sources: Mapping[str, Mapping[str, str]]) -> str:
    """Return a page for these pairs by step; `sources`: step -> who -> source."""
    parts = [f"{_STYLE}<main><h1>Alike kernels</h1><p>{escape(_ABOUT)}</p>"]
    if not any(found.values()):
        parts.append("<p>No two kernels are alike.</p>")
    for step, pairs in found.items():
        if pairs:
            parts.append(f"<h2>{escape(step)}</h2>")
        parts += [_pair(pair, sources[step]) for pair in pairs]
    return page("Alike kernels", "\n".join([*parts, "</main>"]))


def _pair(pair: AlikePair, sources: Mapping[str, str]) -> str:
    said = f"{escape(pair.first)} and {escape(pair.second)}: {pair.alike:.0%} alike, {pair.shared} places"
    sides = "".join(
        f"<div><b>{escape(who)}</b><pre>{_marked(sources[who], lines)}</pre></div>"
        for who, lines in zip((pair.first, pair.second), pair.lines, strict=True)
    )
    return f"<details open><summary>{said}</summary><div class='pair'>{sides}</div></details>"


def _marked(source: str, begins: Sequence[int]) -> str:
    """The source with the lines marked on which shared runs begin."""
    lines = escape(source).split("\n")
    return "\n".join(f"<mark>{line}</mark>" if number in begins else line for number, line in enumerate(lines, start=1))
