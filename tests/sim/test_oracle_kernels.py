"""Whole kernels on the oracle: golden ones against silicon, and small hand-written ones against what PTX says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxsim.isa import INSTRUCTIONS
from warpschool.errors import KernelTrap, SimulationError, StepLimitExceeded, UnsupportedInstruction

from . import golden_kernels
from .oracle_launch import entry, launch

DATA = Path(__file__).parent / "data"
DIALECTS = ("compute_80", "compute_100")


@pytest.fixture(scope="module")
def recorded():
    with np.load(DATA / "silicon_kernels.npz") as archive:
        return {name: archive[name] for name in archive.files}


def golden(name: str, dialect: str):
    case = golden_kernels.LAUNCHES[name]
    x, y = golden_kernels.inputs(name)
    out = np.zeros(golden_kernels.out_words(name), np.uint32)
    arguments = [x, y, out, np.int32(case.n), *([case.extra] if case.extra else [])]
    ptx = (DATA / f"kernels.{dialect}.ptx").read_text()
    return launch(ptx, name, (case.grid,), (case.block,), *arguments, shared_bytes=case.shared_bytes)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", golden_kernels.LAUNCHES)
@pytest.mark.thinned(3)
def test_golden_kernel_equals_silicon(name, dialect, recorded):
    case = golden_kernels.LAUNCHES[name]
    if name == "trigonometry" and "madc" not in INSTRUCTIONS:
        pytest.skip("reduces its argument with madc, which is not in the table of instructions")
    ours, theirs = golden(name, dialect).arrays[2], recorded[name]
    if not case.tolerance:
        wrong = np.flatnonzero(ours != theirs)
        assert not len(wrong), (wrong[:5], ours[wrong[:5]], theirs[wrong[:5]])
    else:
        ours, theirs = ours.view(case.result), theirs.view(case.result)
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=1e-6 if case.result == "f4" else 0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_printf(dialect):
    ptx = (DATA / f"kernels.{dialect}.ptx").read_text()
    x, y = np.arange(100, dtype=np.uint32) * 1000, np.linspace(-3, 4, 100).astype(np.float32)
    printed = launch(ptx, "printing", (2,), (64,), x, y, np.zeros(1, np.uint32), np.int32(100)).result.printed
    expected = [
        f"i={i} x={x[i % 100]:08x} {y[i % 100]:5.2f}|{'odd' if i % 2 else 'even':<6}|{chr(65 + i % 26)}% {i << 33}\n"
        for i in range(0, 128, 37)
    ]
    assert printed == expected[0] + "plain\n" + "".join(expected[1:])


# ---------------------------------------------------------------- memory


def word_kernel(body: str, *, declarations: str = "", registers: str = "") -> str:
    """A kernel with %i = thread, %out = out + 4 * thread; the body leaves its result in %r."""
    return entry(
        f"""
        .reg .b32 %i, %r, %a, %b; .reg .b64 %out, %o, %p, %q; .reg .pred %c; {registers}
        ld.param.u64 %out, [out]; mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; add.u64 %o, %out, %o; mov.u32 %r, 0;
        {body}
        st.global.u32 [%o], %r; ret;""",
        declarations=declarations,
    )


def words(body: str, threads: int = 32, **more) -> np.ndarray:
    options = {k: more.pop(k) for k in ("shared_bytes", "step_limit") if k in more}
    return launch(word_kernel(body, **more), "k", (1,), (threads,), np.zeros(threads, np.uint32), **options).arrays[0]


def test_reading_out_of_bounds_gives_zero_and_writing_is_dropped():
    body = """
        ld.global.u32 %r, [%o+128]; add.u32 %r, %r, 5;
        st.global.u32 [%o+128], %r; st.global.u32 [%o+-1000000], %r; st.global.v2.u32 [%o+124], {%r, %r};
        ld.shared.u32 %a, [s+64]; add.u32 %r, %r, %a; ld.local.u32 %a, [l+8]; add.u32 %r, %r, %a;"""
    found = words(".shared .b32 s[16]; .local .b32 l[2];" + body)
    assert (found == 5).all()


@pytest.mark.parametrize("address", ["0", "-4", "-1", "-2147483648", "0x7FFFFFFFFFFFFFFF", "0x0100000000000000"])
def test_wild_addresses(address):
    body = f"""mov.u64 %p, {address}; ld.global.u32 %a, [%p]; add.u32 %r, %r, %a; st.global.v2.u32 [%p], {{%r, %r}};
        ld.u32 %a, [%p]; add.u32 %r, %r, %a; st.u32 [%p+4], %r; atom.global.add.u32 %a, [%p], 1; add.u32 %r, %r, %a;
        cvt.u32.u64 %b, %p; ld.shared.u32 %a, [%b]; add.u32 %r, %r, %a; ld.local.u32 %a, [%b]; add.u32 %r, %r, %a;"""
    assert (words(body) == 0).all()


def test_generic_addresses_reach_every_space():
    body = """
        .shared .b32 s[32]; .local .b32 l[4];
        mul.wide.u32 %p, %i, 4; mov.u64 %q, s; add.u64 %p, %p, %q; cvta.shared.u64 %p, %p;
        st.u32 [%p], %i; ld.shared.u32 %a, [s+20]; bar.sync 0; ld.u32 %b, [%p];
        mov.u64 %q, l; cvta.local.u64 %q, %q; st.u32 [%q+8], %b; ld.local.u32 %r, [l+8];
        isspacep.shared %c, %p; selp.u32 %a, 100, 0, %c; add.u32 %r, %r, %a;
        isspacep.local %c, %q; selp.u32 %a, 1000, 0, %c; add.u32 %r, %r, %a;
        isspacep.global %c, %out; selp.u32 %a, 10000, 0, %c; add.u32 %r, %r, %a;
        isspacep.global %c, %p; selp.u32 %a, 100000, 0, %c; add.u32 %r, %r, %a;
        cvta.to.shared.u64 %q, %p; cvt.u32.u64 %a, %q; mov.u32 %b, s; sub.u32 %a, %a, %b; shl.b32 %a, %a, 20;
        add.u32 %r, %r, %a;"""
    i = np.arange(32)
    np.testing.assert_array_equal(words(body), i + 11100 + (4 * i << 20))


def test_the_highest_lane_wins_a_store():
    assert words("st.global.u32 [%out], %i; ld.global.u32 %r, [%out];")[0] == 31


def test_parameters_by_address():
    text = entry(
        """.reg .b64 %p, %out; .reg .b32 %r, %i; .reg .b64 %o;
        mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; mov.b64 %p, table; add.u64 %p, %p, %o; ld.param.u32 %r, [%p+4];
        ld.param.u64 %out, [out]; add.u64 %out, %out, %o; st.global.u32 [%out], %r; ret;""",
        params=".param .u64 out, .param .align 4 .b8 table[40]",
    )
    table = np.arange(10, dtype=np.uint32) ** 3
    found = launch(text, "k", (1,), (8,), np.zeros(8, np.uint32), table.tobytes()).arrays[0]
    np.testing.assert_array_equal(found, table[1:9])


def test_red_and_contended_atomics():
    body = """
        red.global.add.u32 [%out], %i; red.global.max.s32 [%out+4], %i;
        atom.global.add.u32 %r, [%out+8], 1; bar.sync 0; @!%c bra next; next:"""
    ptx = word_kernel(body.replace("@!%c bra next; next:", "setp.gt.u32 %c, %i, 2; @!%c ret;"))
    found = launch(ptx, "k", (1,), (64,), np.zeros(64, np.uint32)).arrays[0]
    assert found[0] == 64 * 63 // 2 and found[1] == 63 and found[2] == 64
    np.testing.assert_array_equal(found[3:], np.arange(3, 64))  # lanes take their turns in order


def test_vector_atomics():
    body = """.reg .b32 %x<2>; atom.global.add.v2.f32 {%x0, %x1}, [%out], {%f, %f};"""
    ptx = word_kernel(
        ".reg .b32 %f; mov.b32 %f, 0f3F800000;" + body + " setp.gt.u32 %c, %i, 1; @!%c ret; mov.u32 %r, %x1;"
    )
    found = launch(ptx, "k", (1,), (8,), np.zeros(8, np.float32)).arrays[0]
    np.testing.assert_array_equal(found, [8, 8, 2, 3, 4, 5, 6, 7])


# ---------------------------------------------------------------- control


def test_special_registers():
    names = ["tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "ntid.y", "nctaid.x", "laneid", "warpid"]
    names += ["nwarpid", "lanemask_lt", "lanemask_ge", "dynamic_smem_size", "total_smem_size"]
    stores = "".join(f"mov.u32 %r, %{name}; st.global.u32 [%o+{4 * k}], %r;\n" for k, name in enumerate(names))
    text = entry(f"""
        .reg .b32 %r, %t, %b, %n; .reg .b64 %o, %out; .shared .b8 s[100];
        mov.u32 %t, %tid.z; mov.u32 %n, %ntid.y; mul.lo.u32 %t, %t, %n; mov.u32 %n, %tid.y; add.u32 %t, %t, %n;
        mov.u32 %n, %ntid.x; mul.lo.u32 %t, %t, %n; mov.u32 %n, %tid.x; add.u32 %t, %t, %n;
        mov.u32 %b, %ctaid.y; mul.lo.u32 %b, %b, 2; mov.u32 %n, %ctaid.x; add.u32 %b, %b, %n;
        mad.lo.u32 %t, %b, 60, %t; mul.wide.u32 %o, %t, {4 * len(names)};
        ld.param.u64 %out, [out]; add.u64 %o, %o, %out; {stores} ret;""")
    out = np.zeros((2, 2, 3, 4, 5, len(names)), np.uint32)
    found = launch(text, "k", (2, 2), (5, 4, 3), out, shared_bytes=24).arrays[0]
    for (by, bx, z, y, x), _ in np.ndenumerate(out[..., 0]):
        t = x + 5 * (y + 4 * z)
        lane, warp = t % 32, t // 32
        lt = (1 << lane) - 1
        expected = [x, y, z, bx, by, 0, 4, 2, lane, warp, 2, lt, ~lt & 0xFFFFFFFF, 24, 100 + 24]
        assert found[by, bx, z, y, x].tolist() == expected


def test_divergent_lanes_meet_again():
    body = """
        setp.lt.u32 %c, %i, 10; @%c bra low; add.u32 %r, %r, 1; activemask.b32 %a; bra.uni both;
        low: add.u32 %r, %r, 2; activemask.b32 %a; both: activemask.b32 %b; xor.b32 %a, %a, %b; popc.b32 %a, %a;
        mad.lo.u32 %r, %a, 100, %r;"""
    np.testing.assert_array_equal(words(body), np.where(np.arange(32) < 10, 2202, 1001))


def test_switch_table():
    body = """
        rem.u32 %a, %i, 5; setp.gt.u32 %c, %a, 3; @%c bra other;
        table: .branchtargets zero, one, zero, three;
        brx.idx %a, table;
        zero: add.u32 %r, %a, 7; bra done; one: mov.u32 %r, 99; bra done; three: mul.lo.u32 %r, %i, 3;
        done: add.u32 %r, %r, 1000; other:"""
    expected = [{0: 1007, 1: 1099, 2: 1009, 3: 1000 + 3 * i, 4: 0}[i % 5] for i in range(32)]
    np.testing.assert_array_equal(words(body), expected)


def test_warp_barrier_holds_lanes():
    body = """
        .shared .b32 s[32]; mov.u32 %a, s; mad.lo.u32 %a, %i, 4, %a;
        setp.lt.u32 %c, %i, 16; @%c bra first;
        bar.warp.sync -1; ld.shared.u32 %r, [%a+-64]; bra done;
        first: add.u32 %b, %i, 50; st.shared.u32 [%a], %b; bar.warp.sync -1; mov.u32 %r, %i; done:"""
    i = np.arange(32)
    np.testing.assert_array_equal(words(body), np.where(i < 16, i, i - 16 + 50))


def test_named_barriers_count_threads():
    body = """
        .shared .b32 s[64]; mov.u32 %a, s; mad.lo.u32 %a, %i, 4, %a; shr.u32 %b, %i, 5;
        setp.ge.u32 %c, %i, 64; @%c bra done; st.shared.u32 [%a], %i; bar.sync 3, 64;
        xor.b32 %b, %i, 32; mov.u32 %a, s; mad.lo.u32 %a, %b, 4, %a; ld.shared.u32 %r, [%a];
        done: bar.sync 0;"""
    i = np.arange(96)
    np.testing.assert_array_equal(words(body, 96), np.where(i < 64, i ^ 32, 0))


def test_exited_threads_do_not_hold_a_barrier():
    np.testing.assert_array_equal(words("setp.ge.u32 %c, %i, 40; @%c ret; bar.sync 0; mov.u32 %r, 1;", 64)[:40], 1)


def test_a_barrier_that_never_opens():
    with pytest.raises(SimulationError, match=r"block \(0, 0, 0\), thread \(0, 0, 0\) waits forever"):
        words("bar.sync 1, 128;")


def test_endless_loop_names_its_thread():
    with pytest.raises(StepLimitExceeded, match="thread"):
        words("again: add.u32 %r, %r, 1; bra again;", step_limit=1000)


def test_trap_and_assert():
    with pytest.raises(KernelTrap, match=r"thread \(7, 0, 0\)"):
        words("setp.eq.u32 %c, %i, 7; @%c trap;")
    strings = ", ".join(str(c) for c in b"x > 0")
    declarations = (
        f".global .b8 message[6] = {{{strings}}};\n"
        ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);"
    )
    body = """
        mov.u64 %p, message; cvta.global.u64 %p, %p;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
          st.param.b64 [a], %p; st.param.b64 [b], %p; st.param.b32 [c], 42; st.param.b64 [d], %p; st.param.b64 [e], 1;
          call __assertfail, (a, b, c, d, e); }"""
    with pytest.raises(KernelTrap, match="x > 0") as caught:
        words(body, declarations=declarations)
    assert caught.value.line == 42


def test_unknown_special_register_is_refused():
    with pytest.raises(UnsupportedInstruction, match="envreg3"):
        words("mov.u32 %r, %envreg3;")


def test_same_result_with_blocks_side_by_side_and_alone():
    name, x = "divergence", golden("divergence", "compute_80")
    case = golden_kernels.LAUNCHES[name]
    inputs = golden_kernels.inputs(name)
    ptx = (DATA / "kernels.compute_80.ptx").read_text()
    out = np.zeros(golden_kernels.out_words(name), np.uint32)
    alone = launch(ptx, name, (case.grid,), (case.block,), *inputs, out, np.int32(case.n), step_limit=10**6)
    np.testing.assert_array_equal(alone.arrays[2], x.arrays[2])
    assert alone.result == x.result
