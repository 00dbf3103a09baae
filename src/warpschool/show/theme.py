"""The colours of everything that is drawn: one table, from which style sheets, SVGs and Matplotlib take theirs.

Every colour has a value for light and one for dark surroundings; text on `paper`, `panel` and `faint` keeps a contrast
of 4.5 to 1. The accents of drawings are Okabe and Ito's palette, darkened for light backgrounds and lightened for dark
ones: it stays distinct with every common form of colour blindness.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#fcfcfa", "#14171a"), "panel": ("#ffffff", "#1b1f23"), "ink": ("#1c2024", "#e4e7ea"),
    "soft": ("#5a636d", "#a0a9b3"), "line": ("#dfe2e6", "#333a41"), "edge": ("#cdd2d8", "#454d56"),
    "faint": ("#f3f4f2", "#20252a"), "accent": ("#00695c", "#5cc7b5"), "good": ("#1b6e3c", "#6fd08c"),
    "bad": ("#b3261e", "#ff8a80"), "warn": ("#8a5a00", "#f0b860"), "hot": ("#d67e00", "#f0a032"),
    # source code
    "comment": ("#66707a", "#8b96a1"), "keyword": ("#7a2e8e", "#d29be3"), "type": ("#00618a", "#7cc4e8"),
    "number": ("#8f4700", "#eeb27a"), "string": ("#2f6b1f", "#a5d491"), "cuda": ("#00695c", "#5cc7b5"),
    # drawings
    "used": ("#0072b2", "#5ab4e6"), "on-used": ("#ffffff", "#0d1114"), "waste": ("#c26a00", "#f0ac4a"),
    "waste-soft": ("#fbe6c8", "#4a3716"), "on-waste": ("#1c2024", "#f3f4f5"),
    "s0": ("#0072b2", "#5ab4e6"), "s1": ("#c26a00", "#f0ac4a"), "s2": ("#00795a", "#4fc79f"),
    "s3": ("#a8327d", "#e08bc0"), "s4": ("#5b4bb7", "#a99cf0"), "s5": ("#59626c", "#a5aeb8"),
}  # fmt: skip
"""name -> (light, dark); `s0` to `s5` tell series apart"""
SERIES = sum(re.fullmatch(r"s\d", name) is not None for name in COLOURS)
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY = "#B8B8B8"
"""Okabe and Ito's own values, and a grey: what figures are drawn in, until `themed` puts the theme's own there."""
_OWN = {
    BLUE: "s0", ORANGE: "s1", GREEN: "s2", RED: "hot", PURPLE: "s3", SKY: "s4", GREY: "edge", "#000000": "ink",
    "#ffffff": "panel", "#cccccc": "line", "#b0b0b0": "edge", "#808080": "soft",
}  # fmt: skip
"""a colour of a figure (Matplotlib's own of axes, frames and grids too) -> the theme's"""
TERMINAL = {
    "good": "bold green", "bad": "bold red", "warn": "yellow", "soft": "dim", "comment": "dim italic",
    "keyword": "magenta", "directive": "magenta", "type": "cyan", "number": "yellow", "string": "green",
    "cuda": "bold green", "plain": "", "added": "green", "removed": "red",
}  # fmt: skip
"""The same in a terminal, whose own palette decides: name -> a style of rich."""
_DARK_AROUND = ':is([data-jp-theme-light="false"], .vscode-dark, [data-md-color-scheme="slate"]) .warpschool'
"""JupyterLab and its exports, VS Code, the site: where the theme around a display is dark."""


def variables(theme: str) -> str:
    """The colours of a theme, "light" or "dark", as CSS variables."""
    place = ("light", "dark").index(theme)
    return "".join(f"--{name}:{values[place]};" for name, values in COLOURS.items())


@cache
def root_variables() -> str:
    """The colours for a document of its own, a page or a picture, which follows the scheme of the browser."""
    return f":root{{{variables('light')}}}@media (prefers-color-scheme: dark){{:root{{{variables('dark')}}}}}"


def stand_ins() -> dict[str, str]:
    """Colour name -> a value that stands for it in a Matplotlib figure, until `themed` puts the variable there."""
    return {name: f"#{number:06x}" for number, name in enumerate(COLOURS, start=0x010101)}


def themed(svg: str) -> str:
    """An SVG whose stand-ins, and colours of Matplotlib's figures, have become variables."""
    names = {value: name for name, value in stand_ins().items()} | {own.lower(): name for own, name in _OWN.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: f"var(--{names[found[0]]})" if found[0] in names else found[0], svg)


@cache
def page_style() -> str:
    """The style sheet of a page of its own."""
    rules = _rules()
    return f":root {{ color-scheme: light dark; }}\n{root_variables()}\n{rules['page']}\n{rules['parts']}\n"


@cache
def notebook_style() -> str:
    """The style sheet of a notebook's output: it touches nothing around it, and follows JupyterLab's theme."""
    light = f".warpschool {{ color-scheme: light; {variables('light')} color: var(--ink); {_rules()['parts']} }}"
    return f"{light}\n{_DARK_AROUND} {{ color-scheme: dark; {variables('dark')} }}"


def _rules() -> dict[str, str]:
    """The sections of page.css by name."""
    text = (resources.files("warpschool.show") / "page.css").read_text(encoding="utf-8")
    pieces = re.split(r"/\* == (\w+) == \*/", text)
    return {name: css.strip() for name, css in zip(pieces[1::2], pieces[2::2], strict=True)}
