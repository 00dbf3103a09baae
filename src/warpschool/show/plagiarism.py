"""What kernels of a class have in common, as a page, as data and in words; on the page every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from warpschool.grading.plagiarism import KNOWN, AlikeGroup, AlikePair, Likeness
from warpschool.show.page import escape, page

_STYLE = """<style>
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin-bottom: 2rem; }
.pair > div { min-width: 0; overflow-x: auto; }
.pair mark { background: color-mix(in srgb, var(--hot) 35%, transparent); text-decoration: none; display: inline-block;
  min-width: 100%; }
</style>"""
_ABOUT = (
    "Kernels that are alike after names, numbers, comments, layout and spelling are taken away, and without what the "
    "starter and the reference give or most of the class wrote; where the texts leave it open, their compiled code was "
    "compared. This is a list to look at, not a finding: short kernels have few right forms, and people may have been "
    "allowed to work together. Nothing here changes a score."
)
_SEEN = {"text": "", "code": "; only their compiled code shows it"}


def report(
    found: Mapping[str, Likeness], sources: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Mapping[str, str]] | None = None,
) -> str:  # fmt: skip
    """Return a page for these groups by step; `sources` and `known`: step -> who -> source."""
    parts = [f"{_STYLE}<main><h1>Alike kernels</h1><p>{escape(_ABOUT)}</p>"]
    if not any(one.groups for one in found.values()):
        parts.append("<p>No two kernels are alike.</p>")
    for step, one in found.items():
        told = "".join(f"<p>{escape(words)}</p>" for words in usual_words(one))
        if one.groups or told:
            parts.append(f"<h2>{escape(step)}</h2>{told}")
        elsewhere = {f"{KNOWN}{name}": text for name, text in (known or {}).get(step, {}).items()}
        parts += [_group(group, {**sources[step], **elsewhere}) for group in one.groups]
    return page("Alike kernels", "\n".join([*parts, "</main>"]))


def usual_words(one: Likeness) -> Iterator[str]:
    """Say what most of the class has in common, which is nobody's copy."""
    if one.usual:
        yield (
            f"{len(one.usual)} of {one.handed_in} share what most of the class wrote: where a step leaves little "
            "freedom this is what is right, not a copy."
        )
    if one.as_reference:
        yield f"{len(one.as_reference)} of {one.handed_in} add too little to the reference to be compared."
    if one.unwritten:
        yield f"{len(one.unwritten)} of {one.handed_in} add too little to the starter to be compared."


def to_dict(one: Likeness) -> dict[str, Any]:
    """Return the JSON document of a step."""
    return asdict(one)


def _group(group: AlikeGroup, sources: Mapping[str, str]) -> str:
    who = ", ".join(escape(name) for name in [*group.members, *group.known])
    said = f"{who}: {group.alike:.0%} alike, {group.shared} places{_SEEN[group.seen]}"
    pairs = "".join(_pair(pair, sources) for pair in group.pairs)
    return f"<details open><summary>{said}</summary>{pairs}</details>"


def _pair(pair: AlikePair, sources: Mapping[str, str]) -> str:
    sides = "".join(
        f"<div><b>{escape(who)}</b><pre>{_marked(sources[who], lines)}</pre></div>"
        for who, lines in zip((pair.first, pair.second), pair.lines, strict=True)
    )
    return f"<div class='pair'>{sides}</div>"


def _marked(source: str, begins: Sequence[int]) -> str:
    """The source with the lines marked on which shared runs begin."""
    lines = escape(source).split("\n")
    return "\n".join(f"<mark>{line}</mark>" if number in begins else line for number, line in enumerate(lines, start=1))
