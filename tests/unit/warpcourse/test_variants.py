"""Variants of a student's kernel: the text that is replaced may be spaced in any way."""

from __future__ import annotations

import pytest

from warpcourse.experiments import _replaced


@pytest.mark.parametrize(
    ("source", "old", "made"),
    [
        ("for(int k=0;k<TILE;++k)", "for (int k = 0; k < TILE; ++k)", "new"),
        ("#pragma unroll\n\n  for (;;)", "#pragma unroll\n        for", "new (;;)"),
        ("int BLOCKS   =2;", "BLOCKS = 2", "int new;"),
        ("i += THREADS; j+=THREADS", "+= THREADS", "i new; jnew"),
    ],
)
def test_spaces_do_not_matter(source, old, made):
    assert _replaced(source, old, "new") == (made, True)


@pytest.mark.parametrize("source", ["int BLOCKS = 20;", "int MOST_BLOCKS = 2;", "intBLOCKS = 2", ""])
def test_parts_of_words_are_other_words(source):
    assert _replaced(source, "BLOCKS = 2", "new") == (source, False)
