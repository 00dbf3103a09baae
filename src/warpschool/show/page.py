"""The shell of every HTML report: one file, no request to anywhere, readable in light and dark."""

from __future__ import annotations

import html
import re
from functools import cache
from importlib import resources

from warpschool.show.columns import percent

_DARK_AROUND = ':is([data-jp-theme-light="false"], .vscode-dark, [data-md-color-scheme="slate"]) .warpschool'
"""JupyterLab and its exports, VS Code, the site: where the theme around a display is dark."""


@cache
def style_sheet() -> str:
    """The CSS of a page of its own."""
    css = style_sections()
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {css['dark']} }} }}"
    return f":root {{ color-scheme: light dark; {css['light']} }}\n{dark}\n{css['page']}\n{css['parts']}\n"


def notebook_box(content: str) -> str:
    """Content for a notebook's output, with styles that touch nothing around it and follow JupyterLab's theme."""
    css = style_sections()
    scoped = f".warpschool {{ color-scheme: light; {css['light']} color: var(--ink); {css['parts']} }}"
    dark = f"{_DARK_AROUND} {{ color-scheme: dark; {css['dark']} }}"
    return f'<div class="warpschool"><style>\n{scoped}\n{dark}\n</style>\n{content}</div>'


@cache
def style_sections() -> dict[str, str]:
    """The parts of page.css by name."""
    text = (resources.files("warpschool.show") / "page.css").read_text(encoding="utf-8")
    pieces = re.split(r"/\* == (\w+) == \*/", text)
    return {name: css.strip() for name, css in zip(pieces[1::2], pieces[2::2], strict=True)}


def page(title: str, body: str) -> str:
    """A whole HTML document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{style_sheet()}</style>\n'
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def escape(text: object) -> str:
    """Text as HTML."""
    return html.escape(str(text))


def scrolling(label: str, content: str) -> str:
    """A box that scrolls sideways where the page is narrow; keyboards reach it, screen readers hear its label."""
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">\n{content}\n</div>'


def bar_cell(fraction: float) -> str:
    """A table cell that shows a fraction as text over a bar of that length."""
    text = percent(fraction)
    if text == "-":
        return cell("-")
    return f'<td class="bar" style="--part: {min(1.0, max(0.0, fraction)):.3f}"><span>{text}</span></td>'


def cell(text: object, kind: str = "") -> str:
    """A table cell; `kind` is a class of the style sheet."""
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def facts(items: dict[str, object]) -> str:
    """A line of small facts: name and value."""
    found = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in items.items())
    return f'<ul class="facts">{found}</ul>'


def definitions(items: dict[str, str]) -> str:
    """A definition list."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in items.items()) + "</dl>"


def slug(text: str) -> str:
    """A text as an id."""
    return "".join(c if c.isalnum() else "-" for c in text)
