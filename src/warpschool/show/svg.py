"""SVG by hand: small drawings that follow the light or dark colours of the page they stand in.

An SVG in an `<img>` sees the `color-scheme` of that element, so one file serves both themes. It paints its own
background, so that a browser that does not pass the scheme on shows a readable card all the same.
"""

from __future__ import annotations

import base64
from html import escape

from warpschool.show.theme import root_variables

_FONT = "system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif"
_STYLE = (
    root_variables()
    + f"text{{font:12px {_FONT};fill:var(--ink)}}.s{{fill:var(--soft)}}.b{{font-weight:600}}.m{{text-anchor:middle}}"
    + ".e{text-anchor:end}.k{font-size:10px}.u{fill:var(--used)}.ou{fill:var(--on-used)}.ow{fill:var(--on-waste)}"
    + ".w{fill:url(#hatch)}.o{fill:none;stroke:var(--edge)}.p{fill:var(--panel)}.f{fill:var(--faint)}"
    + ".x{fill:var(--waste-soft);stroke:var(--waste)}.l{stroke:var(--soft);fill:none}.g{stroke:var(--edge);fill:none}"
)
_HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" style="fill:var(--waste-soft)"/>'
    '<rect width="2" height="6" style="fill:var(--waste)"/></pattern>'
)


class Svg:
    """A drawing under construction; coordinates are pixels from the upper left corner.

    Classes: u used, w waste (hatched), x extra, o outline, f faint, l and g lines; of text s soft, b bold, m centred,
    e right-aligned, k small, ou and ow on used and waste.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self._parts: list[str] = []
        self._defs = ""

    def define(self, markup: str) -> None:
        """Something to refer to by its id: a pattern, a marker."""
        self._defs += markup

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, *, style: str = "", r: float = 0
    ) -> None:
        """A box; `r` rounds its corners."""
        corner = f' rx="{_n(r)}"' if r else ""
        self._parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{corner}{_kind(kind, style)}/>'
        )

    def line(self, x0: float, y0: float, x1: float, y1: float, kind: str = "l", *, style: str = "") -> None:
        """A straight line."""
        self.path(f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}", kind, style=style)

    def path(self, d: str, kind: str = "l", *, style: str = "") -> None:
        """A path in SVG's own notation."""
        self._parts.append(f'<path d="{d}"{_kind(kind, style)}/>')

    def text(self, x: float, y: float, said: object, kind: str = "", *, style: str = "") -> None:
        """Text whose baseline starts at (x, y); it is escaped."""
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}"{_kind(kind, style)}>{escape(str(said))}</text>')

    def __str__(self) -> str:
        size = f'width="{_n(self.width)}" height="{_n(self.height)}" viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        body = "".join(self._parts)
        defs = self._defs + (_HATCH if 'class="w"' in body else "")
        defs = f"<defs>{defs}</defs>" if defs else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{defs}'
            f'<rect width="{_n(self.width)}" height="{_n(self.height)}" class="p"/>{body}</svg>'
        )


def image(svg: Svg | str, alt: str) -> str:
    """The `<img>` of a drawing, with its text."""
    size = f' width="{_n(svg.width)}" height="{_n(svg.height)}"' if isinstance(svg, Svg) else ""
    data = base64.b64encode(str(svg).encode()).decode()
    return f'<img alt="{escape(alt)}"{size} src="data:image/svg+xml;base64,{data}">'


def _kind(kind: str, style: str) -> str:
    return (f' class="{kind}"' if kind else "") + (f' style="{escape(style)}"' if style else "")


def _n(value: float) -> str:
    """A number in as few characters as a drawing needs."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
