"""What the memory model says beside races: equal values, relaxed accesses that carry data, warps in lockstep."""

from __future__ import annotations

import numpy as np
import pytest

import warpschool as ws
from warpschool.errors import StepLimitExceeded

ATOMIC = "#include <cuda/atomic>\nusing Int = cuda::atomic_ref<int, cuda::thread_scope_device>;\n"
RELAXED = "cuda::std::memory_order_relaxed"


def launched(body: str, *arrays: np.ndarray, blocks: int = 1, threads: int = 64, before: str = "", **options):
    """The launch of a kernel with int arrays p, q, ...; (its hazards' kinds and lines, its notes', the arrays)."""
    if not any(word in body for word in ("Int", "cuda::")):
        before = before.replace(ATOMIC, "")  # a kernel without it compiles in a fraction of the time
    names = ", ".join(f"int* {name}" for name, _ in zip("pqr", arrays, strict=False))
    module = ws.RawModule(code=f'{before}extern "C" __global__ void k({names}) {{\n{body}\n}}\n', device="sim")
    given = [module.device.asarray(x) for x in arrays]
    launch = module.get_function("k")(blocks, threads, given, **options)
    above = before.count("\n") + 1
    hazards, notes = ([(f.kind, f.line - above) for f in found] for found in (launch.hazards, launch.notes))
    return hazards, notes, [x.get() for x in given]


# ---------------------------------------------------------------- one value


@pytest.mark.parametrize(("body", "threads"), [
    ("__shared__ int s[2]; s[threadIdx.x / 32] = 7; __syncthreads(); p[threadIdx.x] = s[threadIdx.x / 32];", 64),
    ("if (threadIdx.x % 3 == 0) p[0] = 1;", 64),
    ("p[0] = blockIdx.x / 8;", 32),
    ("reinterpret_cast<int4*>(p)[threadIdx.x / 2] = make_int4(1, 2, 3, 4);", 32),
    ("reinterpret_cast<bool*>(p)[threadIdx.x / 4] = true;", 64),
])  # fmt: skip
def test_threads_that_store_one_value_are_noted(body, threads):
    hazards, notes, _ = launched(body, np.zeros(64, np.int32), blocks=2, threads=threads)
    assert hazards == []
    assert {kind for kind, _ in notes} == {"same-value"}


@pytest.mark.parametrize("body", [
    "p[threadIdx.x / 2] = threadIdx.x % 2;",
    "p[0] = 7; __syncwarp(); p[1] = p[0];",  # who reads may read before another writes
    "__shared__ int s; s = threadIdx.x / 32; __syncthreads(); p[0] = s;",
    "reinterpret_cast<int2*>(p)[0] = make_int2(1, threadIdx.x);",
    "if (threadIdx.x < 2) { p[threadIdx.x] = 1; } else { p[0] = 1; p[1] = 2; }",
])  # fmt: skip
def test_other_values_are_races(body):
    hazards, _, _ = launched(body, np.zeros(64, np.int32))
    assert {kind for kind, _ in hazards} == {"race"}


_TILE = '''wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::fill_fragment(f, {value});
    wmma::store_matrix_sync({to}, f, {line}, wmma::{layout});'''
_WMMA = "#include <mma.h>\nusing namespace nvcuda;\n"


@pytest.mark.parametrize(("value", "found"), [("3.0f", "same-value"), ("float(blockIdx.x)", "race")])
@pytest.mark.parametrize("layout", ["mem_row_major", "mem_col_major"])
def test_blocks_that_store_one_tile(value, found, layout):
    body = _TILE.format(value=value, to="reinterpret_cast<float*>(p)", line=16, layout=layout)
    hazards, notes, _ = launched(body, np.zeros(256, np.int32), blocks=2, threads=32, before=_WMMA)
    assert {kind for kind, _ in (*hazards, *notes)} == {found}


@pytest.mark.parametrize(("value", "found"), [("3.0f", "same-value"), ("float(threadIdx.x / 32)", "race")])
def test_warps_that_store_one_tile_in_shared_memory(value, found):
    body = "__shared__ float s[16 * 20];\n" + _TILE.format(value=value, to="s", line=20, layout="mem_row_major")
    body += "\n__syncthreads(); p[threadIdx.x] = s[threadIdx.x % 16];"
    hazards, notes, _ = launched(body, np.zeros(64, np.int32), threads=64, before=_WMMA)
    assert {kind for kind, _ in (*hazards, *notes)} == {found}


_ROWS = """extern "C" __global__ void k(int* p) {
    __shared__ __align__(16) short s[64 * COUNT];
    const unsigned to = (unsigned)__cvta_generic_to_shared(s + 8 * (threadIdx.x % (8 * COUNT)));
    const int v = 0x10001 * VALUE;
    asm volatile("stmatrix.sync.aligned.m8n8.xCOUNT.HOW [%0], {REGISTERS};" :: "r"(to), "r"(v) : "memory");
    __syncthreads();
    p[threadIdx.x] = s[threadIdx.x];
}"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("how", "row"), [("shared.b16", 1), ("trans.shared.b16", 2)])
def test_warps_that_store_rows(how, row, count):
    """By stmatrix: what lane 5 holds lies in one row, or turned in one column of two rows."""

    def found(value: str) -> ws.Launch:
        code = _ROWS.replace("VALUE", value).replace("HOW", how).replace("COUNT", str(count))
        code = code.replace("REGISTERS", ", ".join(["%1"] * count))
        module = ws.RawModule(code=code, device="sim", arch="compute_90")
        return module.get_function("k")(1, 64, (module.device.zeros(64, np.int32),))

    alike, unlike = found("(threadIdx.x % 32)"), found("(threadIdx.x % 32 + (threadIdx.x == 37))")
    assert (len(alike.hazards), {note.kind for note in alike.notes}) == (0, {"same-value"})
    assert [hazard.kind for hazard in unlike.hazards] == ["race"]
    assert unlike.hazards[0].address // 16 == row


def test_a_note_tells_both_threads():
    module = ws.RawModule(code='extern "C" __global__ void k(int* p) { *p = 1; }', device="sim")
    launch = module.get_function("k")(1, 2, (module.device.zeros(1, np.int32),))
    said = "writes p at byte 0, which thread (0, 0, 0) wrote in line 1: both store the same value"
    assert said in str(launch)
    assert launch.notes[0].to_dict()["kind"] == "same-value"


# ---------------------------------------------------------------- relaxed accesses


SUM = f"""__shared__ int s[256];
const int t = threadIdx.x;
Int mine(s[t]);
mine.store(p[t], {RELAXED});
BARRIER
for (int d = 128; d > 0; d /= 2) {{
    if (t < d) {{ Int other(s[t + d]);
        mine.store(mine.load({RELAXED}) + other.load({RELAXED}), {RELAXED}); }}
    BARRIER
}}
if (t == 0) q[0] = mine.load({RELAXED});"""


def test_relaxed_accesses_that_carry_data_are_unordered():
    data = np.arange(256, dtype=np.int32)
    text = SUM.replace("BARRIER", "")
    hazards, _, _ = launched(text, data, np.zeros(1, np.int32), threads=256, before=ATOMIC)
    assert hazards
    assert {kind for kind, _ in hazards} == {"unordered", "uninitialized"}
    text = SUM.replace("BARRIER", "__syncthreads();")
    hazards, _, found = launched(text, data, np.zeros(1, np.int32), threads=256, before=ATOMIC)
    assert hazards == []
    assert found[1][0] == data.sum()


def test_whole_warps_that_read_shared_memory_by_generic_addresses_are_watched():
    text = "__shared__ int s[256]; const int t = threadIdx.x; Int mine(s[t]); mine.store(p[t], RELAXED);"
    text += "if (t < 128) { Int other(s[t + 128]); p[t] = other.load(RELAXED); }"
    hazards, _, _ = launched(text.replace("RELAXED", RELAXED), np.zeros(256, np.int32), threads=256, before=ATOMIC)
    assert {kind for kind, _ in hazards} == {"unordered", "uninitialized"}


WAIT = f"while (flag.load({RELAXED}) == 0) {{}}"


@pytest.mark.parametrize("look", [
    WAIT,
    f"if (flag.load({RELAXED}) == 0) return;",
    "int seen; do { seen = *(volatile int*)q; } while ((seen & 1) == 0); p[70 + threadIdx.x] = seen;",
    "int seen; for (seen = *(volatile int*)q; !(seen & 1); seen = *(volatile int*)q) __nanosleep(9); p[70] = seen;",
])  # fmt: skip
def test_who_looks_for_a_signal_is_not_accused(look):
    body = f"""Int flag(q[0]);
if (blockIdx.x == 0) {{ if (threadIdx.x == 0) flag.store(1, {RELAXED}); return; }}
{look}"""
    assert launched(body, np.zeros(140, np.int32), np.zeros(1, np.int32), blocks=2, before=ATOMIC)[0] == []


LOOK_BACK = """const int b = blockIdx.x, lane = threadIdx.x;
if (lane == 0) atomicExch(&p[b], 2 | 5 << 2);  // a state and a value in one word
const volatile int* word = p;
int sum = 0;
"""
TOTAL = "for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(~0u, v, m); sum += v;"


@pytest.mark.parametrize(("body", "found"), [
    ("if (lane) return; int i = b - 1; while (i >= 0) { int w = word[i]; if (w & 3) { sum += w >> 2; i--; } }", set()),
    ("for (int i = b - 1; !lane && i >= 0; i--) { int w; do w = word[i]; while (!(w & 3)); sum += w >> 2; }", set()),
    (f"""for (int base = b - 1; base >= 0; base -= 32) {{
            const int i = base - lane;
            int w;
            do w = i >= 0 ? word[i] : 2; while (__ballot_sync(~0u, (w & 3) == 0));
            int v = w >> 2; {TOTAL}
        }}""", set()),
    (f"""int base = b - 1;
        while (base >= 0) {{
            const int i = base - lane, w = i >= 0 ? word[i] : 2;
            if (__all_sync(~0u, w & 3)) {{ int v = w >> 2; {TOTAL} base -= 32; }}
        }}""", set()),
    ("for (int i = b - 1; !lane && i >= 0; i--) { int w = word[i]; if (w & 3) sum += w >> 2; }", {"unordered"}),
    ("if (lane) return; int i = 0; while (i < b) { int w = word[i]; sum += w >> 2; i += w & 4 ? 2 : 1; }",
     {"unordered"}),
    ("for (int i = 0; i < 9; i++) { int w = word[b ? b - 1 : 0]; if (w > sum) { sum = w; p[40 + b] = i; } }",
     {"unordered"}),
])  # fmt: skip
def test_a_word_that_tells_by_itself_whether_it_is_there(body, found):
    body = f"{LOOK_BACK}{body}\nif (lane == 0) q[b] = sum;"
    hazards, _, (_, sums) = launched(body, np.zeros(80, np.int32), np.zeros(40, np.int32), blocks=40, threads=32)
    assert {kind for kind, _ in hazards} == found
    assert found or np.array_equal(sums, 5 * np.arange(40))


LAST = """
    cuda::atomic_ref<int, cuda::thread_scope_block> expected(p[0]), missing(p[1]);
    if (threadIdx.x >= 32) expected.fetch_sub(1, RELAXED);
    const bool last = missing.fetch_sub(1, ORDER) == 1;
    const int left = expected.load(RELAXED);
    if (USES) p[2] = left;
"""


@pytest.mark.parametrize(("uses", "order", "found"), [
    ("last", "acq_rel", set()), ("threadIdx.x == 8", "acq_rel", {"unordered"}), ("last", "relaxed", {"unordered"}),
])  # fmt: skip
def test_what_only_the_last_to_arrive_uses(uses, order, found):
    """A barrier loads how many it expects next before it asks whether it is the last."""
    body = LAST.replace("USES", uses).replace("ORDER", RELAXED.replace("relaxed", order)).replace("RELAXED", RELAXED)
    hazards, _, (p,) = launched(body, np.array([64, 64, 0], np.int32), before=ATOMIC)
    assert {kind for kind, _ in hazards} == found
    assert p[2] == 32 or uses != "last"


def test_a_value_that_is_kept_from_before_the_wait_is_data():
    body = f"""Int flag(q[0]);
if (blockIdx.x == 0) {{ if (threadIdx.x == 0) flag.store(1, {RELAXED}); return; }}
p[threadIdx.x] = *(volatile int*)q;
int seen; do {{ seen = *(volatile int*)q; }} while ((seen & 1) == 0); p[70 + threadIdx.x] = seen;"""
    hazards = launched(body, np.zeros(140, np.int32), np.zeros(1, np.int32), blocks=2, before=ATOMIC)[0]
    assert hazards == [("unordered", 3)]


def test_counters_are_not_accused():
    body = f"Int sum(q[0]); p[sum.fetch_add(1, {RELAXED})] = 1;"
    assert launched(body, np.zeros(64, np.int32), np.zeros(1, np.int32), before=ATOMIC)[0] == []


def test_an_accumulator_that_is_read_too_early_is_unordered():
    body = f"Int sum(q[0]); sum.fetch_add(1, {RELAXED}); p[threadIdx.x] = sum.load({RELAXED});"
    hazards, _, _ = launched(body, np.zeros(64, np.int32), np.zeros(1, np.int32), before=ATOMIC)
    assert {kind for kind, _ in hazards} == {"unordered"}


PASSED_ON = """if (blockIdx.x == 0) {
    p[threadIdx.x] = threadIdx.x; __threadfence(); __syncthreads();
    if (threadIdx.x == 0) atomicExch(q, 1); return; }
WAIT
r[threadIdx.x] = TAKEN;"""
VOLATILE, BY_ATOMICS = "while (*(volatile int*)q == 0) {}", "while (atomicAdd(q, 0) == 0) {}"


def passed_on(wait: str, taken: str = "p[threadIdx.x]"):
    body = PASSED_ON.replace("WAIT", wait).replace("TAKEN", taken)
    arrays = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32)
    hazards, _, found = launched(body, *arrays, blocks=2, before=ATOMIC)
    assert (found[2] == range(64)).all()
    return hazards


@pytest.mark.parametrize("wait", [VOLATILE, BY_ATOMICS, f"Int flag(*q); while (flag.load({RELAXED}) == 0) {{}}"])
@pytest.mark.parametrize("taken", ["p[threadIdx.x]", "((volatile int*)p)[threadIdx.x]"])
@pytest.mark.thinned(3)
def test_data_read_behind_a_signal_without_a_fence_is_unordered(wait, taken):
    assert passed_on(wait, taken) == [("unordered", 5)]


@pytest.mark.parametrize("wait", [
    f"{VOLATILE} __threadfence();",
    f"{BY_ATOMICS} cuda::atomic_thread_fence(cuda::std::memory_order_acquire);",
    "Int flag(*q); while (flag.load(cuda::std::memory_order_acquire) == 0) {}",
    f"if (threadIdx.x == 0) {VOLATILE} __syncthreads();",
    f"if (threadIdx.x % 32 == 0) {BY_ATOMICS} __syncwarp();",
])  # fmt: skip
@pytest.mark.thinned(5)
def test_data_that_was_acquired_is_not(wait):
    assert passed_on(wait) == []


FLAG = """__shared__ int data; __shared__ volatile int flag;
if (threadIdx.x == 0) flag = 0;
__syncthreads();
if (threadIdx.x == 0) {{
data = p[1];
{released} flag = 1;
}} else if (threadIdx.x == 32) {{
while (flag == 0) {{ }}
{acquired} p[0] = data;
}}"""


@pytest.mark.parametrize(("released", "acquired", "found"), [
    ("__threadfence_block();", "__threadfence_block();", []),
    ("__threadfence();", "__threadfence();", []),
    ("", "__threadfence_block();", [("race", 9)]),
    ("__threadfence_block();", "", [("unordered", 9)]),
])  # fmt: skip
def test_a_volatile_flag_in_shared_memory_is_a_signal_between_warps(released, acquired, found):
    body = FLAG.format(released=released, acquired=acquired)
    hazards, _, (p,) = launched(body, np.array([0, 7], np.int32))
    assert hazards == found and p[0] == 7


SCOPED = """if (threadIdx.x) return;
cuda::atomic_ref<int, cuda::thread_scope_SCOPE> flag(q[0]);
if (blockIdx.x == FIRST) {
p[0] = p[1]; flag.store(1, cuda::memory_order_release);
} else { while (flag.load(cuda::memory_order_acquire) == 0) { }
p[2] = p[0]; }"""


@pytest.mark.parametrize("first", [0, 1])  # 1: the block that waits begins
@pytest.mark.parametrize(("scope", "found"), [("block", {5, 6}), ("device", set()), ("system", set())])
@pytest.mark.thinned(3)
def test_a_flag_of_the_scope_of_a_block_tells_no_other_block(scope, found, first):
    arrays = np.array([0, 7, 0], np.int32), np.zeros(1, np.int32)
    body = SCOPED.replace("SCOPE", scope).replace("FIRST", str(first))
    hazards, _, _ = launched(body, *arrays, blocks=2, threads=32, before="#include <cuda/atomic>\n")
    assert {kind for kind, _ in hazards} == ({"race"} if found else set())
    assert {line for _, line in hazards} >= found


@pytest.mark.parametrize(("body", "found"), [
    ("atomicAdd_block(p, 1);", {"race"}), ("if (blockIdx.x) atomicAdd_block(p, 1); else atomicAdd(p, 1);", {"race"}),
    ("if (blockIdx.x) atomicAdd(p, 1); else atomicAdd_block(p, 1);", {"race"}), ("atomicAdd(p, 1);", set()),
    ("atomicAdd_block(p + blockIdx.x, 1);", set()), ("__shared__ int s; atomicAdd_block(&s, 1);", {"uninitialized"}),
    ("__shared__ int s; s = 0; __syncthreads(); atomicAdd_block(&s, 1);", set()),
    ("if (blockIdx.x == 0) atomicAdd_block(p, 1);", set()),
    ("__shared__ int s; if (threadIdx.x == 0) atomicExch(&s, 0); __syncthreads(); atomicAdd(&s, 1);", set()),
    ("__shared__ int s; if (threadIdx.x == 0) p[blockIdx.x] = atomicExch(&s, 0);", {"uninitialized"}),
], ids=["block", "device, block", "block, device", "device", "own", "unset", "shared", "one", "exchange",
        "exchanged"])  # fmt: skip
def test_an_atomic_of_the_scope_of_a_block_is_none_for_others(body, found):
    hazards, _, _ = launched(body, np.zeros(4, np.int32), blocks=2)
    assert {kind for kind, _ in hazards} == found


def test_that_scope_is_told():
    module = ws.RawModule(code='extern "C" __global__ void k(int* p) { atomicAdd_block(p, 1); }', device="sim")
    (hazard,) = module.get_function("k")(2, 32, (module.device.asarray(np.zeros(1, np.int32)),)).hazards
    assert (hazard.access, hazard.other_did) == ("atomic", "atomic")
    assert "an atomic of the scope of a block is none for another block" in hazard.message


def test_a_lock_of_lanes_while_other_blocks_look_at_it():
    """Updates by other blocks pass on what the lanes of one warp gave each other."""
    body = """if (threadIdx.x >= 4) return;
const int mine = atomicAdd(&q[0], 1);
while (atomicAdd(&q[1], 0) != mine) { }
__threadfence(); p[0] += 1; __threadfence();
atomicAdd(&q[1], 1);"""
    hazards, _, (p, _) = launched(body, np.zeros(1, np.int32), np.zeros(2, np.int32), blocks=3, threads=32)
    assert hazards == [] and p[0] == 12


def test_a_lock_that_is_never_given_back():
    body = "if (threadIdx.x % 32) return;\nwhile (atomicCAS(q, 0, 1)) { }\np[0] += 1;"
    with pytest.raises(StepLimitExceeded, match="waits in this loop for ever: it updates q at byte 0") as caught:
        launched(body, np.zeros(1, np.int32), np.zeros(1, np.int32), step_limit=1 << 20)
    assert caught.value.line == 3


def test_volatile_data_in_shared_memory_needs_more_between_warps():
    body = "__shared__ volatile int s[64]; s[threadIdx.x] = threadIdx.x;\np[threadIdx.x] = s[threadIdx.x ^ 32];"
    hazards, _, _ = launched(body, np.zeros(64, np.int32))
    assert "race" in {kind for kind, _ in hazards}


@pytest.mark.parametrize("store", [
    "*(volatile int*)q = threadIdx.x;",
    f"Int(*q).store(threadIdx.x, {RELAXED});",
    "if (threadIdx.x < 32) atomicExch(q, threadIdx.x); else *(volatile int*)q = threadIdx.x;",
])  # fmt: skip
@pytest.mark.thinned(3)
def test_strong_stores_to_one_place_are_no_race(store):
    """Which of them stays is open, as it is of relaxed exchanges."""
    assert launched(store, np.zeros(1, np.int32), np.zeros(1, np.int32), blocks=2, before=ATOMIC)[0] == []
    mixed = f"if (blockIdx.x == 0 && threadIdx.x == 0) *q = 7; else {{ {store} }}"
    hazards, _, _ = launched(mixed, np.zeros(1, np.int32), np.zeros(1, np.int32), blocks=2, before=ATOMIC)
    assert {kind for kind, _ in hazards} == {"race"}


# ---------------------------------------------------------------- lockstep


FOLD = """__shared__ SHARED int s[64];
const int t = threadIdx.x;
s[t] = p[t];
__syncthreads();
if (t < 32) {
STEPS
}
if (t == 0) q[0] = s[0];"""


def folded(shared: str, sync: str):
    steps = "\n".join(f"s[t] += s[t + {d}];{sync}" for d in (32, 16, 8, 4, 2, 1))
    if sync:
        steps = "\n".join(f"int v{d} = s[t + {d}];{sync} s[t] += v{d};{sync}" for d in (32, 16, 8, 4, 2, 1))
    text = FOLD.replace("SHARED", shared).replace("STEPS", steps)
    return launched(text, np.ones(64, np.int32), np.zeros(1, np.int32))


def test_volatile_code_of_a_warp_is_told_as_what_it_is():
    hazards, _, _ = folded("volatile", "")
    assert {kind for kind, _ in hazards} == {"lockstep"}
    assert {kind for kind, _ in folded("", "")[0]} == {"race"}
    hazards, _, found = folded("volatile", " __syncwarp();")
    assert hazards == []
    assert found[1][0] == 64


# ---------------------------------------------------------------- orders


def ranks(order: int | None) -> list[np.ndarray]:
    """In which place each warp and each block comes."""
    body = """if (threadIdx.x % 32 == 0) p[blockIdx.x * 8 + threadIdx.x / 32] = atomicAdd(q, 1);"""
    return launched(body, np.zeros(64, np.int32), np.zeros(1, np.int32), blocks=8, threads=256, order=order)[2][:1]


def test_blocks_and_warps_take_their_turns_in_a_seeded_order():
    (by_number,), (first,), (again,), (other,) = ranks(None), ranks(1), ranks(1), ranks(2)
    np.testing.assert_array_equal(by_number, range(64))
    np.testing.assert_array_equal(first, again)
    assert sorted(first) == sorted(other) == [*range(64)]
    assert (first != other).any()
    firsts = first.reshape(8, 8)
    assert (np.argsort(firsts.min(axis=1)) != range(8)).any()  # blocks
    assert any((np.argsort(row) != range(8)).any() for row in firsts)  # warps


def test_the_order_is_the_same_on_every_machine():
    (found,) = ranks(7)
    assert found[:8].tolist() == [33, 32, 37, 39, 38, 34, 36, 35]


def test_right_only_in_one_order_shows():
    """A chain from warp to warp through relaxed accesses that look for no data: only their order makes it right."""
    body = f"""Int next(q[0]);
const int w = threadIdx.x / 32;
if (threadIdx.x % 32 == 0 && next.load({RELAXED}) == w) {{ next.store(w + 1, {RELAXED}); }}"""
    results = set()
    for order in (None, 1):
        arrays = np.zeros(1, np.int32), np.zeros(1, np.int32)
        _, _, found = launched(body, *arrays, threads=256, before=ATOMIC, order=order)
        results.add(int(found[1][0]))
    assert 8 in results
    assert len(results) > 1


@pytest.mark.slow
def test_results_of_right_kernels_do_not_depend_on_the_order():
    text = SUM.replace("BARRIER", "__syncthreads();")
    data = np.arange(256, dtype=np.int32)
    for order in range(2):
        hazards, _, found = launched(text, data, np.zeros(1, np.int32), threads=256, before=ATOMIC, order=order)
        assert hazards == []
        assert found[1][0] == data.sum()
