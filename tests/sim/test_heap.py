"""The device heap: what malloc and new give, what is wrong with it, and that engine and oracle agree."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsim import Memory, parse
from ptxsim.heap import DeviceHeap
from ptxsim.limits import HEAP_BYTES
from ptxsim.oracle import run
from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

SOURCE = r"""
extern "C" __global__ void own(unsigned* out) {
    unsigned* p = (unsigned*)malloc(16 * sizeof(unsigned));
    for (int i = 0; i < 16; ++i) p[i] = threadIdx.x * 100 + i;
    unsigned sum = 0;
    for (int i = 0; i < 16; ++i) sum += p[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + ((unsigned long long)p % 16);
    free(p);
}
struct Node { int value; Node* next; };
extern "C" __global__ void lists(unsigned* out) {
    Node* head = nullptr;
    for (int i = 0; i <= threadIdx.x % 5; ++i) {
        Node* fresh = new Node;
        fresh->value = i, fresh->next = head, head = fresh;
    }
    int sum = 0;
    while (head) {
        Node* old = head;
        sum += old->value, head = old->next;
        delete old;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void shared_by_a_block(unsigned* out) {
    __shared__ unsigned* p;
    if (threadIdx.x == 0) p = new unsigned[blockDim.x];
    __syncthreads();
    p[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = p[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) delete[] p;
}
extern "C" __global__ void keep(unsigned long long* kept, unsigned words) {
    unsigned* p = (unsigned*)malloc(words * 4);
    kept[threadIdx.x] = (unsigned long long)p;
    if (p) p[0] = threadIdx.x + 7;
}
extern "C" __global__ void take(unsigned long long* kept, unsigned* out) {
    unsigned* p = (unsigned*)kept[threadIdx.x];
    out[threadIdx.x] = p[0];
    free(p);
}
extern "C" __global__ void fresh(unsigned* out) {
    out[threadIdx.x] = ((unsigned*)malloc(4))[0];
}
extern "C" __global__ void behind(unsigned* out) {
    unsigned* p = new unsigned[4];
    p[4] = 1;
    out[0] = 1;
    delete[] p;
}
extern "C" __global__ void after(unsigned* out, int at) {
    unsigned* p = new unsigned[4];
    p[at] = 5;
    delete[] p;
    out[0] = p[at];
}
extern "C" __global__ void twice(unsigned* out) {
    unsigned* p = new unsigned[4];
    delete[] p;
    free(p);
    out[0] = 1;
}
extern "C" __global__ void inside(unsigned* out) {
    char* p = (char*)malloc(100);
    free(p + 4);
    out[0] = p == nullptr;
}
extern "C" __global__ void another(unsigned* out) {
    free(out);
}
extern "C" __global__ void raced(unsigned* out) {
    __shared__ unsigned* p;
    if (threadIdx.x == 0) p = (unsigned*)malloc(256);
    __syncthreads();
    p[threadIdx.x / 2] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = p[threadIdx.x / 2];
}
extern "C" __global__ void freed_too_early(unsigned* out) {
    __shared__ unsigned* p;
    if (threadIdx.x == 0) p = (unsigned*)malloc(256);
    __syncthreads();
    p[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == blockDim.x - 1) free(p);
}
extern "C" __global__ void never_ends(unsigned* out) {
    while (true) { unsigned* p = new unsigned; *p = *out; delete p; }
}
"""
LINES = SOURCE.splitlines()


@pytest.fixture(scope="module")
def ptx() -> str:
    return compile_cuda(SOURCE, name="heap.cu").ptx


RIGHT = {
    "own": lambda t: np.array([n * 1600 + 120 for n in t]),
    "lists": lambda t: np.array([sum(range(n % 5 + 1)) for n in t]),
    "shared_by_a_block": lambda t: (63 - t) * 3,
}


@pytest.mark.parametrize("kernel", RIGHT)
@pytest.mark.parametrize("how", [{}, {"parted": True}, {"check": False}, {"threads": 2}], ids=str)
@pytest.mark.thinned(3)
def test_blocks_of_the_heap(ptx, kernel, how):
    wanted = np.tile(RIGHT[kernel](np.arange(64)), 3)
    found = engine_launch.launch(ptx, kernel, (3,), (64,), np.zeros(192, np.uint32), **how)
    assert (found.arrays[0] == wanted).all()
    assert not found.record.hazards


@pytest.mark.parametrize("kernel", RIGHT)
def test_the_oracle_agrees(ptx, kernel):
    arguments = ptx, kernel, (3,), (64,), np.zeros(192, np.uint32)
    judged, found = oracle_launch.launch(*arguments), engine_launch.launch(*arguments)
    assert (judged.arrays[0] == found.arrays[0]).all()
    names = ("thread_instructions", "global_load_sectors", "global_store_sectors")
    assert [judged.counters.get(n) for n in names] == [found.counters.get(n) for n in names]


@pytest.mark.parametrize("engine", [True, False])
def test_blocks_live_until_they_are_freed_across_launches(ptx, engine):
    module, memory = parse(ptx), Memory()
    kept, out = memory.allocate(256, "kept"), memory.allocate(128, "out")

    def launch(name, *arguments):
        if not engine:
            return run(module.kernel(name), 1, 32, arguments, memory)
        record = module.kernel(name).launch(1, 32, arguments, memory)
        assert not record.hazards
        return record

    launch("keep", kept, np.uint32(8))
    addresses = kept.view().view(np.uint64).copy()
    assert len(set(addresses)) == 32 and not (addresses % 16).any()
    assert len(memory.heap.blocks) == 32
    launch("take", kept, out)
    assert (out.view().view(np.uint32) == np.arange(32) + 7).all()
    assert not memory.heap.blocks and memory.heap.used_bytes == 0


def test_addresses_follow_from_the_calls_alone(ptx):
    def places():
        found = engine_launch.launch(ptx, "keep", (1,), (32,), np.zeros(32, np.uint64), np.uint32(100))
        return np.diff(found.arrays[0].astype(np.int64))

    assert (places() == places()).all()


@pytest.mark.parametrize(("heap_bytes", "fit"), [(HEAP_BYTES, 8), (3 << 20, 3), (100, 0)])
def test_an_exhausted_heap_gives_null(ptx, heap_bytes, fit):
    module = parse(ptx)
    for launch in (lambda k, a, m: k.launch(1, 32, a, m), lambda k, a, m: run(k, 1, 32, a, m)):
        memory = Memory(heap_bytes=heap_bytes)
        kept = memory.allocate(256)
        launch(module.kernel("keep"), (kept, np.uint32(1 << 18)), memory)
        assert np.count_nonzero(kept.view().view(np.uint64)) == fit


def test_fresh_memory_reads_as_nan(ptx):
    assert engine_launch.launch(ptx, "fresh", (1,), (4,), np.zeros(4, np.uint32)).arrays[0].tolist() == [0xFFFFFFFF] * 4


WRONG = {
    "behind": ("out-of-bounds", 2, "outside the heap block of line {1}: 0 bytes behind its 16 bytes"),
    "after": ("out-of-bounds", 4, "reads the heap block of line {1} at byte 8, which line {3} has freed"),
    "twice": ("out-of-bounds", 3, "frees the heap block of line {1}, which line {2} has freed already"),
    "inside": ("out-of-bounds", 2, "frees an address that malloc did not give: byte 4 of the heap block of line {1}"),
    "another": ("out-of-bounds", 1, "frees an address that malloc did not give: byte 0 of argument 0"),
    "raced": ("race", 4, "writes the heap block of line {2} at byte 0, which thread (0, 0, 0) wrote in line {4}"),
    "freed_too_early": ("race", 5, "frees the heap block of line {2} at byte 0, which thread (0, 0, 0) wrote"),
}
"""Kernel -> kind, line and words; lines count from the kernel's first."""


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("kernel", WRONG)
def test_what_is_wrong_with_the_heap(ptx, kernel, parted):
    kind, line, told = WRONG[kernel]
    first = next(n for n, text in enumerate(LINES, 1) if f" {kernel}(" in text)
    more = (np.int32(2),) if kernel == "after" else ()
    threads = 64 if kind == "race" else 1
    found = engine_launch.launch(ptx, kernel, (1,), (threads,), np.zeros(64, np.uint32), *more, parted=parted)
    (hazard,) = found.record.hazards
    assert (hazard.kind, hazard.line) == (kind, first + line)
    assert told.format(*range(first, first + 9)) in hazard.message
    assert hazard.message == type(hazard).from_dict(hazard.to_dict()).message


def test_a_block_given_again_is_no_race_and_not_freed():
    """A heap of one block: its place is used again by another thread of another block."""
    source = r"""
    extern "C" __global__ void k(unsigned* out) {
        unsigned* p = (unsigned*)malloc(1000);
        p[threadIdx.x] = blockIdx.x;
        out[blockIdx.x] = p[threadIdx.x];
        free(p);
    }"""
    memory = Memory(heap_bytes=1008)
    out = memory.allocate(4 * 20)
    kernel = parse(compile_cuda(source, name="again.cu").ptx).kernel("k")
    assert not kernel.launch(20, 1, (out,), memory).hazards
    assert out.view().view(np.uint32).tolist() == list(range(20))


def test_an_endless_loop_of_mallocs_ends_by_its_budget(ptx):
    with pytest.raises(Exception, match="never ends"):
        engine_launch.launch(ptx, "never_ends", (1,), (32,), np.zeros(1, np.uint32), step_limit=1 << 18)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_never_overlap(seed):
    """Against a set of bytes, with a heap small enough that places are used again."""
    random = np.random.default_rng(seed)
    memory = np.zeros(DeviceHeap.stretch(4000), np.uint8)
    heap, live = DeviceHeap(4000, 1 << 20, memory), {}
    for _ in range(600):
        if live and random.random() < 0.5:
            address = list(live)[random.integers(len(live))]
            assert heap.free(address, 1) is live.pop(address)
            assert heap.free(address, 1) is None
        elif (block := heap.allocate(int(random.integers(1, 900)), 1, int(2 ** random.integers(9)))) is not None:
            taken = [range(b.address, b.end) for b in live.values()]
            assert not any(r.start < block.end and block.address < r.stop for r in taken)
            assert heap.address <= block.address and block.end <= heap.end and block.address % 16 == 0
            live[block.address] = block
        assert heap.used_bytes == sum(-(-b.nbytes // 16) * 16 for b in live.values()) <= 4000
        for block in live.values():
            assert heap.find(block.address) is heap.find(block.end - 1) is block is heap.meant(block.address)
            assert heap.find(block.end) is not block


def test_a_heap_goes_back_to_what_it_was():
    heap = DeviceHeap(4000, 1 << 20, np.zeros(DeviceHeap.stretch(4000), np.uint8))
    first, second = heap.allocate(100, 1), heap.allocate(50, 2)
    heap.free(first.address, 3)
    state, owners = heap.state(), heap.owners.copy()
    with heap.back_at(state):
        heap.free(second.address, 4)
        heap.allocate(10, 5)
    assert heap.blocks == (second,) and second.died == 0 and heap.state() == state
    assert (heap.owners == owners).all()
    assert heap.meant(first.address).freed_line == 3
