"""Registers and memory that tensor cores, bulk copies and blocks of a cluster share with threads: each use is right,
and wrong in one way."""

from __future__ import annotations

import pytest

from .test_bulk_rules import launched

PRODUCT = r"""
    __shared__ alignas(128) unsigned short w[1024];
    for (int k = t; k < 1024; k += 128) w[k] = 0x3c00;
    proxy(); __syncthreads();
    float d[4] = {START, 0, 0, 0};
    u64 a = (at(w) & 0x3ffff) >> 4 | (128ull >> 4) << 16 | (256ull >> 4) << 32;
    FIRST
    for (int k = 0; k < 2; ++k) {
        FENCE
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
        BETWEEN
    }
    o[t] = d[0];
"""
FENCE = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
IN_REGISTERS = (
    PRODUCT.replace("float d[4]", "unsigned h[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}; float d[4]")
    .replace("{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;", "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;")
    .replace('"l"(a), "l"(a)', '"r"(h[0]), "r"(h[1]), "r"(h[2]), "r"(h[3]), "l"(a)')
)


def product(source: str = PRODUCT, **parts: str):
    for name, part in ({"START": "0", "FIRST": "", "FENCE": "", "BETWEEN": ""} | parts).items():
        source = source.replace(name, part)
    launch, o = launched(source, threads=128)
    return {(h.kind, h.detail) for h in launch.hazards}, o[:128]


@pytest.mark.parametrize("source", [PRODUCT, IN_REGISTERS], ids=["from memory", "from registers"])
@pytest.mark.parametrize(("parts", "expected"), [
    ({"FENCE": FENCE}, 32), ({"FIRST": FENCE}, 32), ({"FENCE": FENCE, "START": "g[t]"}, None),
    ({"FENCE": FENCE, "BETWEEN": "for (int i = 0; i < 4; ++i) d[i] *= 2;"}, 96),
    ({"FENCE": f"if (k == 0) {{ {FENCE} }}"}, 32), ({"FIRST": FENCE, "BETWEEN": "d[2] = 3;"}, 32),
    ({"FIRST": FENCE, "BETWEEN": "d[2] = threadIdx.x;"}, 32),
], ids=["each", "one before all", "loaded", "scaled", "the first time", "constants", "computed"])  # fmt: skip
def test_registers_that_a_fence_orders(source, parts, expected):
    found, o = product(source, **parts)
    assert not found
    if expected is not None:
        assert (o == expected).all()


SCALED = {"FIRST": FENCE, "BETWEEN": "for (int i = 0; i < 4; ++i) d[i] *= 2;"}


@pytest.mark.parametrize(("source", "parts"), [
    (PRODUCT, {}), (PRODUCT, SCALED), (IN_REGISTERS, SCALED), (PRODUCT, SCALED | {"BETWEEN": "d[3] = g[t];"}),
    (IN_REGISTERS, {"FIRST": FENCE, "BETWEEN": "h[2] = g[t];"}),
    (PRODUCT, {"FENCE": f"if (t < 32 || k == 0) {{ {FENCE} }}", "BETWEEN": "d[0] += 1;"}),
], ids=["none", "scaled", "scaled, A in registers", "one sum", "A alone", "one warp fences"])  # fmt: skip
def test_registers_that_no_fence_orders(source, parts):
    found, _ = product(source, **parts)
    assert found == {("async-order", "registers")}


def test_warps_of_a_warpgroup_name_the_same_operands():
    longer = PRODUCT.replace("1024", "1032")
    found, _ = product(longer, FENCE=FENCE, FIRST="if (t >= 96) a += 1;")
    assert found == {("warp-sync", "warpgroup")}


@pytest.mark.parametrize(("last", "found"), [(1024, set()), (1000, {("uninitialized", "")})])
def test_an_operand_that_nobody_has_written(last, found):
    assert product(PRODUCT.replace("k < 1024", f"k < {last}"), FENCE=FENCE)[0] == found


@pytest.mark.parametrize(("to", "found"), [(32, set()), (24, {"uninitialized"})])
def test_a_bulk_store_of_what_nobody_has_written(to, found):
    launch, _ = launched(f"if (t < {to}) s[t] = t; proxy(); __syncwarp(); if (t == 0) store(o, s, 128);")
    assert {h.kind for h in launch.hazards} == found


@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize(("waits", "found"), [("wait(&b, 0);", set()), ("", {"unwaited"})], ids=["waits", "does not"])
def test_a_block_ends_behind_the_copies_into_it(cluster, waits, found):
    body = "if (t == 0) { init(&b, 1); expect(&b, 128); load(s, g, 128, &b); WAITS } o[t] = t;"
    launch, _ = launched(body.replace("WAITS", waits), blocks=2, cluster=cluster)
    assert {h.detail for h in launch.hazards} == found


FRAGMENT = r"""
    __shared__ alignas(128) unsigned short w[256];
    unsigned h[8];
    LOAD
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], 16;"
                 : "=r"(h[0]), "=r"(h[1]), "=r"(h[2]), "=r"(h[3]), "=r"(h[4]), "=r"(h[5]), "=r"(h[6]), "=r"(h[7])
                 : "r"(at(w)) : "memory");
    BEHIND
    o[t] = h[0] + h[7];
"""
COPY = "if (t == 0) { init(&b, 1); expect(&b, 512); load(w, g, 512, &b); } __syncwarp();"


def test_a_fragment_of_what_is_copied():
    def details(load: str, behind: str = "") -> set[str]:
        return {h.detail for h in launched(FRAGMENT.replace("LOAD", load).replace("BEHIND", behind))[0].hazards}

    assert not details(f"{COPY} wait(&b, 0);")
    assert details(COPY, "wait(&b, 0);") == {"early"}


STORED = r"""
    __shared__ alignas(128) float w[256];
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1,%1,%1,%1,%1,%1,%1,%1}, 16;"
                 :: "r"(at(w)), "f"(1.0f) : "memory");
    FENCE
    __syncwarp();
    if (t == 0) store(o, w, 128);
"""


def test_a_fragment_that_is_stored_in_bulk():
    assert not launched(STORED.replace("FENCE", "proxy();"))[0].hazards
    assert {h.detail for h in launched(STORED.replace("FENCE", ""))[0].hazards} == {"fence"}


# ---------------------------------------------------------------- memory of several blocks

PEERS = r"""
    const unsigned other = far(s, 1 - r);
    s[t] = r;
    BEGUN
    if (WHO) { FIRST }
    BETWEEN
    if (!(WHO)) { SECOND }
    meet();
"""
PUT = 'asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(other + 4 * (t AT)), "r"(7) : "memory");'
GET = """
    int x;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(other + 4 * (t AT)) : "memory");
    o[t] = x;
"""


def peers(first: str, second: str, between: str, *, who: str = "r == 0", begun: str = "meet();"):
    body = PEERS
    for name, part in {
        "FIRST": first, "SECOND": second, "BETWEEN": between, "WHO": who, "BEGUN": begun, " AT": "",
    }.items():  # fmt: skip
        body = body.replace(name, part)
    return {(h.kind, h.detail, h.other_did) for h in launched(body, blocks=2, cluster=True)[0].hazards}


@pytest.mark.parametrize(("first", "second", "did"), [
    (PUT, "o[t] = s[t];", "write"), (PUT, "s[t] = 3;", "write"), ("s[t] = 3;", GET, "write"),
    (GET, "s[t] = 3;", "read"), ("o[t] = s[t];", PUT, "read"),
], ids=["puts, reads", "puts, writes", "writes, gets", "gets, writes", "reads, puts"])  # fmt: skip
def test_words_of_several_blocks(first, second, did):
    assert not peers(first, second, "meet();")
    assert peers(first, second, "__syncthreads();") == {("async-order", "conflict", did)}


def test_what_does_not_conflict():
    assert not peers(GET, "o[t + 32] = s[t];", "")
    assert not peers(PUT.replace("t AT", "t + 32"), "o[t] = s[t];", "")
    assert not peers(PUT.replace("t AT", "t + 1"), "s[0] = 1;", "")


@pytest.mark.parametrize("type_", ["u8", "u16"])
def test_parts_of_a_word_of_several_blocks(type_):
    part = {"u8": 1, "u16": 2}[type_]
    put = f'asm volatile("st.shared::cluster.{type_} [%0], %1;" :: "r"(at_ + AT), "h"((short)7) : "memory");'

    def found(own: int, other: int) -> set[str]:
        body = f"const unsigned at_ = far(s, 0) + 4 * t; meet(); if (r == 0) {{ {put.replace('AT', str(own))} }}"
        body += f"else {{ {put.replace('AT', str(other))} }} meet();"
        return {h.detail for h in launched(body, blocks=2, cluster=True)[0].hazards}

    assert not found(0, part)
    assert found(part, part) == {"conflict"}


def test_two_warps_of_one_block_in_another_one():
    def found(between: str) -> set[str]:
        body = f"""
        const unsigned other = far(s, 1);
        meet();
        if (r == 0 && t < 32) {PUT.replace(" AT", "")}
        {between}
        if (r == 0 && t >= 32) {PUT.replace("t AT", "t - 32")}
        meet();
        """
        return {h.detail for h in launched(body, blocks=2, threads=64, cluster=True)[0].hazards}

    assert not found("__syncthreads();")
    assert found("") == {"conflict"}


def test_what_nobody_has_written_in_another_block():
    assert not peers(GET, "", "")
    found = peers(GET.replace("t AT", "t + 32"), "", "")
    assert found == {("uninitialized", "", "")}


def test_what_another_block_has_put_is_written():
    assert not peers(PUT.replace("t AT", "t + 32"), "o[t] = s[t + 32];", "meet();")


HISTOGRAM = r"""
    unsigned there;
    s[t] = 0;
    BEGUN
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&s[t % 7])), "r"(g[t] % 2));
    asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(there) : "memory");
    atomicAdd(&s[t % 5], 1);
    DONE
    o[32 * r + t] = s[t];
    meet();
"""


@pytest.mark.parametrize(("begun", "done", "details"), [
    ("meet();", "meet();", set()), ("__syncthreads();", "meet();", {"peer"}),
    ("meet();", "__syncthreads();", {"conflict"}),
], ids=["right", "others still set it to zero", "others still add"])  # fmt: skip
def test_atomics_of_several_blocks(begun, done, details):
    launch, o = launched(HISTOGRAM.replace("BEGUN", begun).replace("DONE", done), blocks=2, cluster=True)
    assert {h.detail for h in launch.hazards if h.kind == "async-order"} == details
    assert o[:64].sum() == 128 or details


COPIED = r"""
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(s + 4 * t)), "l"(g + 4 * t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    WAIT
    proxy(); __syncwarp();
    if (t == 0) store(o, s, 128);
"""


@pytest.mark.parametrize(("wait", "found"), [
    ('asm volatile("cp.async.wait_group 0;" ::: "memory");', set()), ("", {"fence"}),
    ('asm volatile("cp.async.wait_all;" ::: "memory");', set()),
    ('asm volatile("cp.async.wait_group 1;" ::: "memory");', {"fence"}),
], ids=["waits", "does not", "waits for all", "leaves one group open"])  # fmt: skip
def test_what_cp_async_brings_is_there_once_it_has_been_waited_for(wait, found):
    launch, _ = launched("if (t < 8) {" + COPIED.replace("WAIT", wait).replace("proxy()", "} proxy()"))
    assert {h.detail for h in launch.hazards} == found
