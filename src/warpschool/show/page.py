"""What every display is made of: one HTML file without a request to anywhere, a notebook's output, a message.

A message goes to stdout or to the notebook, never to stderr, which nbgrader takes for a failure.
"""

from __future__ import annotations

import html
import sys

from warpschool.show import theme


def page(title: str, body: str) -> str:
    """A whole HTML document, readable in light and dark."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{theme.page_style()}</style>\n'
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def notebook_box(content: str) -> str:
    """Content for a notebook's output, with its styles."""
    return f'<div class="warpschool"><style>\n{theme.notebook_style()}\n</style>\n{content}</div>'


def escape(text: object) -> str:
    """Text as HTML."""
    return html.escape(str(text))


def scrolling(label: str, content: str) -> str:
    """A box that scrolls sideways where the page is narrow; keyboards reach it, screen readers hear its label."""
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">\n{content}\n</div>'


def details(summary: str, content: str, *, is_open: bool = False) -> str:
    """Content behind a button; "" where there is none."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{summary}</summary>{content}</details>" if content else ""


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


# ---------------------------------------------------------------- messages


class Shown:
    """Text with an HTML form."""

    def __init__(self, text: str, markup: str) -> None:
        self.text = text
        self.markup = markup

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


def show(text: str, markup: str) -> None:
    """Display `markup` in a notebook; print `text` elsewhere."""
    if "IPython" in sys.modules:
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:
            display(Shown(text, markup))
            return
    print(text)


def show_text(text: str, *, failed: bool = False) -> None:
    """Display preformatted text, with a red bar at its left if something failed and a green one if not."""
    colour, _ = theme.COLOURS["bad" if failed else "good"]
    show(text, f'<pre style="border-left: 4px solid {colour}; padding-left: 0.8em">{escape(text)}</pre>')
