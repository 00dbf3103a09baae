"""The oracle's printf against the C library's."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given, settings, strategies as st

from ptxsim.printf import formatted

LIBC = ctypes.CDLL(None)


def c_text(text: str, *arguments) -> str:
    buffer = ctypes.create_string_buffer(4096)
    LIBC.snprintf(buffer, len(buffer), text.encode(), *arguments)
    return buffer.value.decode()


def ours(text: str, *packed: bytes, strings: dict[int, bytes] | None = None) -> str:
    """Arguments lie one after the other, each at a multiple of its size, as vprintf's caller leaves them."""
    memory = b""
    for argument in packed:
        memory = memory.ljust(-(-len(memory) // len(argument)) * len(argument), b"\0") + argument
    return formatted(
        text.encode(),
        lambda at, size: memory[at : at + size].ljust(size, b"\0"),
        lambda at, most: (strings or {})[at][:most],
    ).text


flags = st.sampled_from(["", "-", "+", " ", "0", "#", "-+", "+0", "0#"])
widths = st.sampled_from(["", "1", "8", "20"])
precisions = st.sampled_from(["", ".0", ".3", ".10"])


@settings(max_examples=500, deadline=None)
@given(flags, widths, precisions, st.sampled_from("diuxXo"), st.integers(-(1 << 31), (1 << 31) - 1))
def test_integers(flag, width, precision, kind, value):
    text = f"[%{flag}{width}{precision}{kind}]"
    assert ours(text, struct.pack("<i", value)) == c_text(text, ctypes.c_int(value))


@settings(max_examples=500, deadline=None)
@given(flags, widths, precisions, st.sampled_from("fFeEgGaA"), st.floats(width=64))
def test_floats(flag, width, precision, kind, value):
    text = f"[%{flag}{width}{precision}{kind}]"
    assert ours(text, struct.pack("<d", value)) == c_text(text, ctypes.c_double(value))


@pytest.mark.parametrize(
    ("text", "packed", "expected"),
    [
        ("%lld %llx", [struct.pack("<q", -5), struct.pack("<Q", 1 << 40)], "-5 10000000000"),
        ("%d %lf %c", [struct.pack("<i", 1), struct.pack("<d", 0.5), struct.pack("<i", 65)], "1 0.500000 A"),
        ("%hd %hhu", [struct.pack("<i", 0x12345), struct.pack("<i", 0x1FF)], "9029 255"),
        (
            "%*d|%-*.*f|",
            [struct.pack("<i", v) for v in (5, 42, 8, 2)] + [struct.pack("<d", 3.14159)],
            "   42|3.14    |",
        ),
        ("%p", [struct.pack("<Q", 0xABC)], "0xabc"),
        ("100%% %5s|%-5s|%.2s", [struct.pack("<Q", k) for k in (1, 2, 3)], "100%    ab|cd   |ef"),
        ("no directive: %y %", [], "no directive: %y %"),
        ("%zu %ld", [struct.pack("<Q", 7), struct.pack("<q", -8)], "7 -8"),
    ],
)
def test_directives(text, packed, expected):
    assert ours(text, *packed, strings={1: b"ab", 2: b"cd", 3: b"efgh"}) == expected


def test_bytes_that_are_no_text():
    assert ours("%s", struct.pack("<Q", 1), strings={1: b"\xff\xfe"}) == "\N{REPLACEMENT CHARACTER}" * 2


def test_huge_widths_are_bounded():
    assert len(ours("%99999d", struct.pack("<i", 1))) < 10_010
    assert len(ours("%*d", struct.pack("<i", 2_000_000_000), struct.pack("<i", 1))) < 10_010
