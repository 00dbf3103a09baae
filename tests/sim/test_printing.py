"""printf in kernels: what it returns, and strings wherever they lie; all tiers print alike, and so does the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim.errors import PrintLimitExceeded
from warpschool.compile import compile_cuda

from .engine_launch import launch
from .oracle_launch import launch as by_oracle

MANNERS = [
    {"tier": "compiled"}, {"tier": "stencils"}, {"parted": True}, {"check": False, "count": False}, {"threads": 2},
]  # fmt: skip


def kernel(body: str, declarations: str = "") -> str:
    head = f'#include <cstdio>\n{declarations}\nextern "C" __global__ void k(int* r, const char* s, int n)'
    return compile_cuda(f"{head}\n{{\n{body}\n}}\n").ptx


def everywhere(ptx: str, block: int, text: bytes, *, grid: int = 1, words: int = 64) -> tuple[str, np.ndarray, set]:
    """What was printed, returned and told; the same in every way to run it."""
    arguments = np.full(words, -99, np.int32), np.frombuffer(text, np.uint8), np.int32(len(text))
    reference = by_oracle(ptx, "k", (grid,), (block,), *arguments)
    told = set()
    for manner in MANNERS:
        ours = launch(ptx, "k", (grid,), (block,), *arguments, **manner)
        assert ours.record.printed == reference.result.printed, manner
        np.testing.assert_array_equal(ours.arrays[0], reference.arrays[0], err_msg=str(manner))
        found = {(f.kind, f.line, f.space, f.access) for f in ours.record.hazards}
        assert manner.get("check", True) or not found
        if manner.get("check", True):
            assert not told or found == told, manner
            told = found
    return reference.result.printed, reference.arrays[0], told


RETURNS = r"""
    int at = 0;
    r[at++] = printf("none\n");
    r[at++] = printf("%d %d\n", 1, 2);
    r[at++] = printf("%%d\n");
    r[at++] = printf("%*d|\n", 5, 1);
    r[at++] = printf("%s\n", r[60] == 1 ? "" : (const char*)nullptr);
    r[at++] = printf(r[60] == 1 ? "" : (const char*)nullptr);
    r[at++] = printf("%y %d\n", 3);
    r[at++] = printf("%d %s %f %c\n", 1, "lit", 2.0, 'c');
    r[at++] = printf("%d\n", 1, 2, 3);
    r[at++] = printf("");
    r[at++] = printf("%ld %hd|%5%|\n", 1L, 2);
    r[at++] = printf("%p %n|\n", (void*)16);
    r[at++] = printf("end %");
"""


def test_it_returns_what_an_h100_returns():
    printed, returned, told = everywhere(kernel(RETURNS), 1, b"\0")
    assert returned[:13].tolist() == [0, 2, 0, 2, 1, -1, 1, 4, 1, 0, 2, 1, 0]
    assert printed == "none\n1 2\n%d\n    1|\n(null)\n%y 3\n1 lit 2.000000 c\n1\n1 2|%5%|\n0x10 %n|\nend %"
    assert not told


def test_each_lane_gets_its_own():
    body = r"""
    int i = threadIdx.x;
    const char* format = i % 3 == 0 ? nullptr : i % 3 == 1 ? "%d\n" : "%d %s\n";
    r[i] = -5;
    if (i != 7) r[i] = printf(format, i, s);
    """
    printed, returned, told = everywhere(kernel(body), 40, b"text\0")
    assert returned[:40].tolist() == [-5 if i == 7 else (-1, 1, 2)[i % 3] for i in range(40)]
    assert printed.splitlines()[:3] == ["1", "2 text", "4"]
    assert not told


SPACES = r"""
    __shared__ char shared_[16];
    char local_[16];
    const int i = threadIdx.x;
    if (i < 15) shared_[i] = 'a' + i;
    if (i == 15) shared_[15] = 0;
    for (int k = 0; k < 15; ++k) local_[(k + n) % 16] = k < 3 + i % 4 ? 'A' + (i + k) % 26 : 0;
    local_[(15 + n) % 16] = 0;
    __syncthreads();
    const char* start = local_ + n % 16;
    if (i % 8 == 1) r[i] = printf("%d %s|%s|%s|%s|%-4.2s|\n", i, s, fixed, shared_ + i % 4, start, shared_);
    __syncthreads();
    if (i == 0) shared_[0] = 'Z';
    local_[n % 16] = '?';
    __syncthreads();
    if (i == 2) r[i] = printf(shared_), printf(start), printf("\n");
"""


def test_strings_lie_anywhere_and_are_read_when_it_is_called():
    ptx = kernel(SPACES, '__constant__ char fixed[] = "constant";')
    text = b"global\0" + bytes(9)
    assert len(text) % 16 == 0
    printed, returned, told = everywhere(ptx, 32, text)
    lines = printed.splitlines()
    letters = [chr(ord("A") + i) for i in range(26)]
    own = {i: "".join(letters[(i + k) % 26] for k in range(3 + i % 4)) for i in (1, 9, 17, 25, 2)}
    assert lines[:4] == [f"{i} global|constant|{'abcdefghijklmno'[i % 4 :]}|{own[i]}|ab  |" for i in (1, 9, 17, 25)]
    assert lines[4] == "Zbcdefghijklmno?" + own[2][1:]
    assert returned[[1, 9, 17, 25]].tolist() == [6] * 4
    assert not told


@pytest.mark.parametrize(
    ("body", "expected", "finding"),
    [
        ('r[0] = printf("%s|", s);', "text|", ("out-of-bounds", 5, "global", "read")),
        ('r[0] = printf("%.4s|", s);', "text|", None),
        ('r[0] = printf("%.5s|", s);', "text|", ("out-of-bounds", 5, "global", "read")),
        ('r[0] = printf("%s|", s + 4);', "(bad string)|", ("out-of-bounds", 5, "global", "read")),
        ('r[0] = printf("%s|", s - 99);', "(bad string)|", ("out-of-bounds", 5, "global", "read")),
        ('__shared__ char t[4]; for (int k = 0; k < n; ++k) t[k] = s[k]; r[0] = printf("%s|", t);', "text|",
         ("out-of-bounds", 5, "shared", "read")),
        ('__shared__ char t[4]; t[n - 1] = s[0]; r[0] = printf("%s|", t + 3 + n);', "(bad string)|",
         ("out-of-bounds", 5, "shared", "read")),
    ],
)  # fmt: skip
def test_a_string_that_does_not_end_in_its_memory_is_told(body, expected, finding):
    printed, returned, told = everywhere(kernel(body), 1, b"text")
    assert (printed, told) == (expected, {finding} if finding else set())
    assert returned[0] == 1


def test_a_string_in_local_memory_that_does_not_end_is_told():
    """What lies behind it in local memory are other variables, here none but printf's own arguments."""
    body = 'char t[64]; for (int k = 0; k < 64; ++k) t[(k + n) % 64] = s[k % n]; printf("%s|", t + PLACE);'
    _, _, told = everywhere(kernel(body.replace("PLACE", "8 * n")), 1, b"text")
    assert {(kind, space) for kind, _, space, _ in told} <= {("out-of-bounds", "local")}
    printed, _, told = everywhere(kernel(body.replace("PLACE", "4096 * n")), 1, b"text")
    assert printed == "(bad string)|"
    assert told == {("out-of-bounds", 5, "local", "read")}


def test_a_format_that_cannot_be_read():
    printed, returned, told = everywhere(kernel("r[0] = printf(s + n);"), 1, b"text")
    assert (printed, returned[0], told) == ("", -2, {("out-of-bounds", 5, "global", "read")})


def test_another_blocks_string_in_a_cluster():
    body = r"""
    __shared__ char t[8];
    auto cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0) for (int k = 0; k < 8; ++k) t[k] = k < 7 ? 'a' + cluster.block_rank() : 0;
    cluster.sync();
    if (threadIdx.x == 0) printf("%s %s\n", t, cluster.map_shared_rank(t, 1 - cluster.block_rank()));
    cluster.sync();
    """
    source = f"""#include <cstdio>
#include <cooperative_groups.h>
extern "C" __global__ __cluster_dims__(2) void k(int* r, const char* s, int n)
{{{body}}}"""
    printed, _, told = everywhere(compile_cuda(source, arch="compute_90").ptx, 32, b"\0", grid=2)
    assert printed == "aaaaaaa bbbbbbb\nbbbbbbb aaaaaaa\n"
    assert not told


@pytest.mark.parametrize("manner", MANNERS, ids=str)
def test_long_strings_count_among_the_bytes_that_are_printed(manner):
    ptx = kernel('r[threadIdx.x] = printf("%s", s);')
    text = np.frombuffer(b"x" * 70_000 + b"\0", np.uint8)
    arguments = np.zeros(64, np.int32), text, np.int32(0)
    assert len(launch(ptx, "k", (1,), (10,), *arguments, **manner).record.printed) == 700_000
    with pytest.raises(PrintLimitExceeded):
        launch(ptx, "k", (1,), (20,), *arguments, **manner)
