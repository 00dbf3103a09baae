"""A hook of mkdocs: formulas of the pages become MathML, which browsers draw without a script and without a network.

`$…$` and `$$…$$` are marked by pymdownx.arithmatex (mkdocs.yml); what it marked is LaTeX, which latex2mathml converts.
A formula that it cannot convert ends the build.
"""

from __future__ import annotations

import html
import re
from typing import Any

_MARKED = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, /, page: Any = None, **_: Any) -> str:
    """The page with each marked formula as MathML."""
    return _MARKED.sub(lambda match: formula(html.unescape(match[2]), block=match[1] == "div"), content)


def formula(marked: str, *, block: bool) -> str:
    """A formula between `\\(` and `\\)`, or `\\[` and `\\]`, as MathML; its LaTeX stays as its label."""
    from latex2mathml.converter import convert

    latex = marked.strip().removeprefix("\\[" if block else "\\(").removesuffix("\\]" if block else "\\)").strip()
    made = convert(latex, display="block" if block else "inline")
    made = made.replace("<math ", f'<math aria-label="{html.escape(latex, quote=True)}" ', 1)
    return f'<div class="formula">{made}</div>' if block else made
