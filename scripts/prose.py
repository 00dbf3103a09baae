"""Looks for words that docs/STYLE.md does not want, for endless sentences, and for what proselint finds, in all prose.

    python scripts/prose.py [FILE ...]        (make lint)

Prose is what is left of a page of docs/ or of a notebook's text when code, formulas, comments, tables, links'
addresses and quotations are taken out. The list of words stands in docs/STYLE.md and nowhere else. Exits with 1 where
something is found. proselint is in the `dev` extra; without it the rest is looked for, and a line says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STYLE = ROOT / "docs" / "STYLE.md"
LONGEST = 60
"""words of one sentence, a list inside it included"""

UNASKED = {
    "typography.symbols": "quotes, dots and x are those of code, as one types them",
    "misc.phrasal_adjectives.ly": "a hyphen more hurts nobody",
    "lexical_illusions": "a term that is defined ends one sentence and begins the next",
    "dates_times.dates": "an apostrophe behind a name is taken for a decade's",
    "misc.preferred_forms": "it wants accents in English words",
    "weasel_words.very": "the very same is no weasel",
    "typography.exclamation": "C has an operator of that form",
    "misc.greylist": "our own list has its words",
}
"""proselint's checks that are not asked, each with the reason."""

_WORDS = re.compile(r"<!-- begin words.*?-->(.*?)<!-- end words -->", re.DOTALL)
_ROW = re.compile(r"^\|([^|\n]+)\|([^|\n]+)\|$", re.MULTILINE)
_HEADS = {"not", "never"}

_NOT_PROSE = re.compile(
    r"^```.*?^```[^\n]*$"  # code, a notebook's cells among it
    r"|<!--.*?-->"
    r"|<svg.*?</svg>|<[^<>\n]+>"
    r"|``.+?``|`[^`\n]*(?:\n[^`\n]+)?`"
    r"|\$\$.*?\$\$|\$[^$\n]+\$"
    r"|(?<=\])\([^)\s]*\)"  # a link's address
    r"|^\|.*\|$"  # a row of a table
    r"|^> .*$"
    r"|^## Sources$.*?(?=^## |\Z)",  # other people's titles
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Complaint:
    """Something in a page that is to be written otherwise."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        place = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{place}:{self.line}: {self.what}"


def words(style: str) -> dict[str, str]:
    """Each unwanted word or phrase of docs/STYLE.md -> what to write instead, or why not."""
    found = _WORDS.search(style)
    if found is None:
        raise SystemExit("docs/STYLE.md lacks the markers <!-- begin words … --> and <!-- end words -->")
    rows = [(left.strip(), right.strip()) for left, right in _ROW.findall(found[1])]
    rows = [row for row in rows if row[0] not in _HEADS and not row[0].startswith("-")]
    return {word.strip().lower(): advice for left, advice in rows for word in left.split(",")}


def prose_of(text: str) -> str:
    """The text with everything that is no prose blanked: lines and columns stay where they are."""
    return _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def pattern_of(unwanted: dict[str, str]) -> re.Pattern[str]:
    """What finds any of the words, whole, across the end of a line too."""
    parts = [re.escape(word).replace(r"\ ", r"\s+") for word in sorted(unwanted, key=len, reverse=True)]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-]|/\w)", re.IGNORECASE)


def unwanted_words(path: Path, prose: str, unwanted: dict[str, str]) -> Iterator[Complaint]:
    """Words of the list."""
    for match in pattern_of(unwanted).finditer(prose):
        word = " ".join(match[0].split())
        yield Complaint(path, _line(prose, match.start()), f"'{word}': {unwanted[word.lower()]}")


def endless_sentences(path: Path, prose: str) -> Iterator[Complaint]:
    """Sentences of more than LONGEST words. A paragraph, an item of a list and a heading each end one."""
    for block in re.finditer(r"(?:(?!\n\s*\n|\n\s*[-*#]|\n\s*\d+\.).)+", prose, re.DOTALL):
        start = block.start()
        for sentence in re.split(r"(?:(?<=[.!?:])|(?<=[.!?]\)))\s+(?=[A-Z*(])", block[0]):
            count = len(re.findall(r"\w[\w'-]*", sentence))
            if count > LONGEST:
                yield Complaint(path, _line(prose, start), f"a sentence of {count} words: more than {LONGEST}")
            start += len(sentence) + 1


def linted(path: Path, prose: str) -> Iterator[Complaint]:
    """What proselint finds, less what it is not asked."""
    from proselint.checks import __register__
    from proselint.config import DEFAULT
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    for found in LintFile(str(path), prose).lint(DEFAULT):
        name = found.check_result.check_path
        if not any(name.startswith(unasked) for unasked in UNASKED):
            start = max(0, found.check_result.span[0] - 1)  # a newline is put in front
            yield Complaint(path, _line(prose, start), f"{name}: {found.check_result.message}")


def complaints(path: Path, unwanted: dict[str, str], *, with_linter: bool) -> list[Complaint]:
    """All of one page, in its order."""
    prose = prose_of(path.read_text(encoding="utf-8"))
    found = [*unwanted_words(path, prose, unwanted), *endless_sentences(path, prose)]
    found += linted(path, prose) if with_linter and prose.strip() else []
    return sorted(found, key=lambda complaint: complaint.line)


def pages() -> list[Path]:
    """All pages of docs/, the notebooks' texts, and the two that a visitor reads first."""
    return [
        *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "labs").glob("*/*.md")),
        ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    ]  # fmt: skip


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="pages (default: all)")
    chosen = [path.resolve() for path in parser.parse_args().files] or pages()
    unwanted = words(STYLE.read_text(encoding="utf-8"))
    has_linter = importlib.util.find_spec("proselint") is not None
    if not has_linter:
        print("proselint is not installed: only words and sentences are looked at", file=sys.stderr)
    found = [complaint for path in chosen for complaint in complaints(path, unwanted, with_linter=has_linter)]
    print("\n".join(map(str, found)) if found else f"{len(chosen)} pages: nothing to complain of")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
