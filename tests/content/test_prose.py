"""The words that docs/STYLE.md lists are found where they are prose, and stand in no page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "prose.py"


@pytest.fixture(scope="module")
def prose():
    spec = importlib.util.spec_from_file_location("prose_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def said(prose, tmp_path):
    """What is complained of in a page: (line, what) for each."""
    table = "| not | but |\n|---|---|\n| via, thread block | by |\n"
    unwanted = prose.words(f"<!-- begin words -->\n{table}<!-- end words -->")

    def look(text: str, *, with_linter: bool = False) -> list[tuple[int, str]]:
        page = tmp_path / "page.md"
        page.write_text(text)
        return [(c.line, c.what) for c in prose.complaints(page, unwanted, with_linter=with_linter)]

    return look


def test_both_lists_are_read_from_the_page(prose):
    found = prose.words(prose.STYLE.read_text())
    assert found["utilize"] == "use" and "stops reading" in found["simply"] and "let us" in found
    assert len(found) > 60 and not {"not", "never", "---"} & set(found)


def test_a_page_without_its_lists_is_refused(prose):
    with pytest.raises(SystemExit, match="lacks the markers"):
        prose.words("# no list")


@pytest.mark.parametrize("text", ["It goes via L2.", "# Via L2", "- a list: via L2", "a **via** b", "a Thread\nblock."])
def test_an_unwanted_word_is_found(said, text):
    assert [what.split(":")[0].lower() for _, what in said(f"One line.\n\n{text}\n")] in (["'via'"], ["'thread block'"])


def test_a_complaint_names_its_line(said):
    assert said("A line.\n\n```\nvia\n```\n\nAnother\nvia L2.\n") == [(8, "'via': by")]


@pytest.mark.parametrize(
    "text",
    [
        "```\nvia\n```", "`via`", "`a thread\nblock`", "$via$", "$$\nvia\n$$", "<!-- via -->", "> said via L2",
        "[a page](via.md)", "| via | 2 |", "viable, trivia, via-duct", "<a href='via'>x</a>",
    ],
)  # fmt: skip
def test_what_is_no_prose_is_let_be(said, text):
    assert said(f"One line.\n\n{text}\n\nAnother line.\n") == []


def test_an_endless_sentence_is_found_and_two_of_half_its_length_are_not(prose, said):
    half = "one " * (prose.LONGEST // 2)
    assert said(f"It {half}\nand {half} ends.\n")[0][0] == 1
    assert said(f"It {half}ends. It {half}ends.\n") == []
    assert said(f"- It {half}\n- and {half}\n\nand {half}\n") == []


def test_the_linter_is_asked(prose, said):
    pytest.importorskip("proselint")
    (found,) = said("One line.\n\nThis is a very unique kernel.\n", with_linter=True)
    assert found[0] == 3 and "uncomparables" in found[1]


def test_no_page_has_something_to_complain_of(prose):
    unwanted = prose.words(prose.STYLE.read_text())
    pages = prose.pages()
    assert len(pages) > 40
    found = [str(complaint) for page in pages for complaint in prose.complaints(page, unwanted, with_linter=False)]
    assert not found, "\n".join(found)
