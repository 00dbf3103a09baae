"""Hints that follow the fault: what was seen decides over them, not which criterion saw it.

Each has three levels, as those of a criterion: a nudge, where to look, pseudocode. A step that knows more about a fault
than these has a criterion that is `about` it, whose own hints are taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxsim import Finding
from warpschool.grading.verdicts import Judgement, Verdict

Hints = tuple[str, ...]
_FROM_ABOVE = "The line above is where it was seen."

_RACE_SHARED = (
    "Two threads share an element of {array}, and nothing says who comes first. Which of the two has to?",
    "Between the write and the read of the other thread, {lines}, stands no barrier that both pass. A loop's end meets "
    "its begin: the next round's writes come after this round's reads.",
    "write {array}; __syncthreads(); read {array}; __syncthreads() before it is written again",
)
_RACE_BLOCKS = (
    "Threads of different blocks write the same element of {array}. Is each element one thread's business?",
    "Compute by hand which element block 0 and block 1 write in {lines}: an index without blockIdx, or a missing guard "
    "`if (row < ROWS && col < COLS)`, lets two of them meet. Barriers order the threads of one block only.",
    "index = blockIdx.x * blockDim.x + threadIdx.x; if (index < n) {array}[index] = ...; a sum over blocks: atomicAdd",
)
_RACE_COPY = (
    "cp.async only starts a copy. When has it arrived?",
    "In front of {lines}: a thread waits for its own copies, then for the other threads.",
    "__pipeline_commit(); ...; __pipeline_wait_prior(0); __syncthreads(); read {array}",
)
_LOCKSTEP = (
    "volatile keeps the compiler from caching; it does not make lanes wait for each other. What does?",
    "Between the write and the read of {array} in {lines}: lanes of a warp run apart on every GPU since Volta.",
    "write {array}; __syncwarp(); read {array}; __syncwarp(); or take the value by __shfl_down_sync(0xffffffff, x, k)",
)
_UNORDERED = (
    "One thread writes, another waits for a flag or simply reads. What makes the data arrive before the flag?",
    "Relaxed and volatile accesses say nothing about other memory: see {lines}. Within a block a barrier orders them, "
    "between blocks a fence on both sides and an atomic flag, or a second kernel.",
    "write data; __threadfence(); atomicExch(flag, 1)   and: while (!atomicAdd(flag, 0)); __threadfence(); read data",
)
_ASYNC = (
    "Copies and matrix products that work beside the threads have their own order. Who has waited for whom here?",
    "At {lines}: wait for the phase of the barrier object before the data is used, and for all readers before it is "
    "overwritten; a fence stands between the threads' own stores and such an engine.",
    "mbarrier: expect_tx(bytes); start copy; wait(phase); use; __syncthreads(); the next copy into the same place",
)
_BARRIER = (
    "__syncthreads() waits for every thread of the block. Does every thread get there?",
    "Look at the conditions and returns around {lines}: the barrier stands inside an `if` or a loop that some threads "
    "leave earlier, or behind a `return`.",
    "if (inside) tile[...] = ...; else tile[...] = 0; __syncthreads();   // outside of the if, no early return",
)
_WARP = (
    "Instructions of a warp, shuffles and matrix products, name the lanes that take part. Do all of those come?",
    "At {lines}: is it inside a condition that only some lanes fulfil, or does its mask name other lanes than those?",
    "value = inside ? x : 0; value += __shfl_down_sync(0xffffffff, value, 16);   // outside of the if, all 32 lanes",
)
_DEADLOCK = (
    "Somebody waits for arrivals that never come. How many are expected, and who arrives?",
    "Compare the count given to the barrier object with the threads that arrive in a phase, and the bytes announced.",
    "init(barrier, number of threads that arrive); each of them: barrier.arrive(); and waits with its token",
)
_BEHIND = (
    "Which thread is the first that has nothing to do? Here one of those accesses {array} all the same.",
    "The index of {array} in {lines} runs past the end. A grid is rounded up to whole blocks: guard by the array's own "
    "sizes, rows and columns each by theirs.",
    "if (row < ROWS && col < COLS) value = {array}[row * COLS + col]; else value = 0;",
)
_BEFORE = (
    "An index of {array} is negative. Where do you subtract?",
    "In {lines}: borders and offsets such as `x - 1` or `row - PAD` need a guard on the low side too.",
    "if (x >= 0 && x < N) value = {array}[x]; else value = 0;",
)
_NOWHERE = (
    "This address belongs to no array: a factor is wrong, not a border. What does each part of the index mean?",
    "In {lines}: is the row multiplied by the number of columns, once? Is a byte offset used as an index, or a product "
    "too large for an int?",
    "{array}[row * COLS + col]   // an index counts elements",
)
_SPACE = (
    "The pointer leads into another kind of memory than the access says.",
    "At {lines}: an address of shared memory handed on as an integer, or one of a local variable given to others?",
    "shared addresses for inline PTX: unsigned at = __cvta_generic_to_shared(&tile[0]);",
)
_UNWRITTEN_SHARED = (
    "Somebody reads an element of {array} that nobody has filled. Which one is it?",
    "In {lines}: compare the elements that the block writes with those that it reads; at the edges of the matrix the "
    "elements outside have to become zero.",
    "tile[y][x] = row < ROWS && col < COLS ? A[row * COLS + col] : 0.0f;   // every element, every round",
)
_VARIABLE = (
    "What does a variable hold before it is given a value? On a GPU: whatever was left in its register.",
    "The declaration that is named above, and every path from it to {lines}: is a value stored on each of them?",
    "float sum = 0.0f;   int count = 0;   float largest = -INFINITY;",
)
_MISALIGNED = (
    "A float4 lies at multiples of 16 bytes, a float2 at multiples of 8. Does this one?",
    "In {lines}: is the index a multiple of 4 at any number of columns? If these are no multiple of 4, the second "
    "row begins beside it.",
    "if (COLS % 4 == 0) four at once; else one by one;   __shared__ __align__(16) float tile[...]",
)
_ENDLESS = (
    "Which variable must change for this loop to end, and which statement changes it?",
    "At {lines}: `=` in place of `+=`, a step of zero or of the wrong sign, a variable of an outer loop, or an "
    "unsigned number that never falls below zero.",
    "for (int k0 = 0; k0 < K; k0 += TILE) { ... }   // start, end, step: all three named, none changed inside",
)
_NO_START = (
    "`+=` reads before it writes. What does the output hold when the kernel begins?",
    "Outputs begin as NaN (integers as 0x7f7f...), so that nobody relies on zeros; a header's Zeroed arrays are 0.",
    "float sum = 0.0f; for (...) sum += ...; C[index] = sum;   // one store, by =",
)
_NEVER = (
    "Some elements nobody writes. Which thread should have?",
    "Compare grid x block with the size of the output, and read the guard in front of the store: which elements does "
    "it leave out? The pattern above says where they are.",
    "row = blockIdx.y * blockDim.y + threadIdx.y; col = blockIdx.x * blockDim.x + threadIdx.x; C[...] = sum",
)
_OF_CAUSE: Mapping[str, Hints] = {
    "dynamic-shared": (
        "`extern __shared__` declares an array without a size. Who says how large it is?",
        "The launch does: the header's Launch line, by shared= and a number of bytes.",
        "// Launch:  matmul block=(256) grid=(cdiv(N, 256)) shared=256 * 4",
    ),
    "transposed": (
        "The numbers are right and stand in the wrong places: rows and columns have changed places.",
        "Look at the store's index, or at those of both inputs: x runs along columns, and a row has COLS elements.",
        "C[row * COLS + col] with row from .y and col from .x; for a transposed matrix read [col * ROWS + row]",
    ),
    "shifted-row": (
        "The numbers are right, one row away. Where does counting begin?",
        "Look for `row + 1`, `row - 1`, `<=` in place of `<`, or a halo that is added on one side only.",
        "C[row * COLS + col] for row = 0 ... ROWS - 1",
    ),
    "shifted": (
        "The numbers are right, a few elements away. Where does counting begin?",
        "Look for `+ 1` and `- 1` in the store's index, and for a border that is added once too often or too little.",
        "C[index] with index from 0 to n - 1",
    ),
    "reversed": (
        "The numbers are right, in reverse order. Which index runs backwards?",
        "Look for `n - 1 - i`: once is a reversal, twice is none.",
        "y[i] = x[n - 1 - i]   or   y[i] = x[i]",
    ),
    "unwritten": _NEVER,
    "no-start": _NO_START,
    "infinite": (
        "Infinity comes from a number too large for its type, a division by 0, or the logarithm of 0. Which is it?",
        "exp overflows in float32 beyond 88 and is 0 below -104: then its logarithm, or 1 over it, is infinite. Half "
        "ends at 65,504. Where the wrong elements stand: what goes into exp, log, /, or a cast to half?",
        "subtract the largest first: exp(x - largest); log(exp(x - largest) / sum) is x - largest - log(sum)",
    ),
    "nan": (
        "NaN comes from a division 0 / 0, a root of a negative number, inf - inf, or from an input that is NaN itself.",
        "Which of these can happen at the elements that the pattern names? An output or scratch array that is read "
        "before it is written holds NaN, too.",
        "guard the division: n > 0 ? sum / n : 0; largest value first: exp(x - largest)",
    ),
    "zero": (
        "All wrong elements are zero. Is something added up that is never stored, or stored before it is added up?",
        "Look at the elements that the pattern names: do their loops run at all, and are the inputs inside the guard?",
        "for (k = 0; k < K; ++k) sum += a * b; C[index] = sum;",
    ),
    "factor": (
        "Every wrong element is off by the same factor. What is counted twice, or divided once too often?",
        "A factor of 2: both halves of a loop or of a warp add the same; 1 / n: a mean in place of a sum; alpha or a "
        "scale that is applied twice or forgotten; a factor of -1: `-=` for `+=`, or a difference the other way round.",
        "each product once: for (k = 0; k < K; ++k) sum += a[k] * b[k]; then alpha * sum + beta * C",
    ),
    "offset": (
        "Every wrong element is off by the same amount. What is added once too often, or left out?",
        "Look at start values and biases: a sum that begins with something, a term outside of the loop.",
        "sum = 0; add every term once; add the bias once",
    ),
    "rounded": (
        "The numbers are nearly right, and too far off for rounding in the types that the step names. Which number "
        "has fewer digits than they have?",
        "A sum in `half` loses a little with each term; a float that goes through `half` or a fast intrinsic does "
        "once. Where the terms are many, one that is left out looks like this too.",
        "float sum = 0.0f;   sum += __half2float(a) * __half2float(b);   to half once, at the store",
    ),
    "truncated": (
        "The results have lost what stands behind the point. Where does a number become an int?",
        "A variable or return type `int`, a division of two ints, or a cast; `1 / 4` is 0.",
        "float sum = 0.0f;   1.0f / 4   static_cast<float>(count) / n",
    ),
    "constant": (
        "All wrong elements are the same. Does each thread compute its own?",
        "Look for an index without threadIdx or blockIdx, or a value that one thread computes and all store.",
        "index = blockIdx.x * blockDim.x + threadIdx.x",
    ),
    "edge": (
        "Only the last, incomplete tile is wrong. What is different there?",
        "Its elements outside of the matrix: they have to count as zero in every sum, and must not be stored.",
        "value = row < ROWS && col < COLS ? A[row * COLS + col] : 0.0f;   number of tiles: (K + TILE - 1) / TILE",
    ),
}
_FREED = (
    "This memory was given back already. Who still uses it?",
    "Compare the line of cudaFree with {lines}: a free stands behind the last use, behind a loop and not in it.",
    "allocate; for (...) { copy; launch; }; synchronise; free",
)
_HOST_SIDE = (
    "There are two memories. Whose address is this pointer, and who follows it here?",
    "At {lines}: an address of cudaMalloc means something to kernels and to cudaMemcpy alone. The order is "
    "(destination, source, bytes, direction), and the direction says which of both is the device's.",
    "cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice);   cudaMemcpy(y.data(), d_y, bytes, "
    "cudaMemcpyDeviceToHost);",
)
_OF_PROGRAM: Mapping[str, Hints] = {
    "leak": (
        "Who gives back what was allocated at {lines}?",
        "For each cudaMalloc there is one cudaFree of the same pointer, on every way out of main; after a swap of "
        "pointers each of the two is still freed once.",
        "CHECK(cudaFree(d_x));   of cudaMallocHost: CHECK(cudaFreeHost(h_x));",
    ),
    "use-after-free": _FREED, "copy-freed": _FREED,
    "double-free": (
        "The same pointer is freed twice. Which of the two is one too many?",
        "At {lines}: is it freed in a loop, or have two variables come to hold the same address?",
        "CHECK(cudaFree(d_x)); CHECK(cudaFree(d_y));   each once",
    ),
    "invalid-free": (
        "Each kind of memory has a call of its own that frees it. Which one has this?",
        "At {lines}: cudaFree for cudaMalloc and cudaMallocManaged, cudaFreeHost for cudaMallocHost, and always the "
        "address that was given, not one inside.",
        "cudaMallocHost(&h_x, bytes); ...; cudaFreeHost(h_x);",
    ),
    "copy-bounds": (
        "A copy reaches behind its memory. In what is its size counted?",
        "At {lines}: cudaMemcpy counts bytes, n numbers are n * sizeof(float) of them; the last chunk may be shorter.",
        "const size_t bytes = n * sizeof(float);   count = min(chunk, n - start)",
    ),
    "copy-pointer": _HOST_SIDE, "host-access": _HOST_SIDE,
    "early-access": (
        "A launch only begins a kernel. Who says that it has ended?",
        "At {lines} the host uses managed memory while a kernel may still run: a synchronisation stands in between.",
        "kernel<<<...>>>(m); CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize()); use(m[0]);",
    ),
    "copy-uninitialized": (
        "What is copied here, nobody has written. Who should have?",
        "Before {lines}: does the kernel run at all, and does it write this array, or another one?",
        "copy in; kernel<<<...>>>(d_x, d_y); copy d_y out",
    ),
    "global-uninitialized": (
        "A kernel reads what nobody has written. Who should have?",
        "Before {lines}: cudaMalloc gives memory that holds anything; is there a copy, or a cudaMemset, for all of it?",
        "cudaMalloc(&d_sum, sizeof(float));   cudaMemset(d_sum, 0, sizeof(float));",
    ),
    "stream-race": (
        "Work in two streams uses the same bytes. What says which comes first?",
        "At {lines}: record an event behind the first, and let the other's stream wait for it.",
        "cudaEventRecord(done, a);   cudaStreamWaitEvent(b, done, 0);",
    ),
    "unchecked-launch": (
        "A launch returns nothing. How does the host learn that it was refused?",
        "The one at {lines} was: a grid of 0 blocks, a block of more than 1,024 threads, or too much shared memory.",
        "kernel<<<grid, block>>>(...); CHECK(cudaGetLastError());",
    ),
    "ignored-error": (
        "A call failed, and the program did not look. What does every call return?",
        "At {lines}: it gives back a cudaError_t, which is cudaSuccess or says what was wrong.",
        "CHECK(cudaMalloc(&d_x, bytes));",
    ),
    "tensor-map": (
        "The driver makes no tensor map of this. Which of its conditions does not hold?",
        "At {lines}: strides and the array's address are multiples of 16 bytes, and so is a box's inner side, which "
        "fits into the swizzle; a box has at most 256 elements along each dimension.",
        "cuuint64_t strides[] = {columns * sizeof(half)};   bytes, of all dimensions but the innermost",
    ),
    "crash": (
        "Host code used an address that is none of its own.",
        "At {lines}: an index behind an array's end, a vector that is too short, or a pointer that was never set.",
        "std::vector<float> y(n);   before y[n - 1] or y.data() is used",
    ),
}
"""By what was found in a whole program; see `warpschool.programs.report.Note`."""
_OF_VERDICT: Mapping[Verdict, Hints] = {
    Verdict.RACE: _RACE_SHARED, Verdict.SYNC: _BARRIER, Verdict.OOB: _BEHIND, Verdict.TLE: _ENDLESS,
    Verdict.RTE: (
        "The kernel stopped itself. " + _FROM_ABOVE,
        "A failed assert, a trap, a call through a bad pointer, too deep a recursion: which, and for which thread?",
        "print the values it depends on: if (threadIdx.x == 0) printf(\"%d\\n\", value);",
    ),
    Verdict.LE: (
        "A GPU refuses this launch. " + _FROM_ABOVE,
        "The header's Launch line: at most 1024 threads in a block, and the shared memory that the chip has.",
        "block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16))",
    ),
    Verdict.MLE: (
        "It asks for more memory than there is. Which array grows with what?",
        "Arrays inside the kernel exist once for each thread; scratch arrays of the header once in all.",
        "a tile in shared memory in place of an array for each thread",
    ),
    Verdict.OLE: (
        "printf writes for every thread. Whose output do you need?",
        "One thread of one block, or one element.",
        "if (row == 0 && col == 0) printf(\"%f\\n\", sum);",
    ),
}  # fmt: skip


def fault_hints(told: Judgement, *, of_step: Mapping[Verdict, Hints]) -> Hints:
    """The hints for what was seen; () where only the criterion itself can know some.

    `of_step`: what the step's own criteria say about some verdicts.
    """
    if told.cause in _OF_PROGRAM:
        return tuple(_placed(hint, told) for hint in _OF_PROGRAM[told.cause])
    if told.verdict is Verdict.WA or told.cause:
        return _OF_CAUSE.get(told.cause, ())
    if told.verdict in of_step:
        return of_step[told.verdict]
    if told.finding is not None:
        found, chosen = told.finding, _OF_KIND.get(told.finding.kind)
        hints = chosen(found) if chosen is not None else _OF_VERDICT.get(told.verdict, ())
    elif told.verdict is Verdict.UNINIT:
        hints = _VARIABLE
    else:
        hints = _DEADLOCK if told.verdict is Verdict.SYNC else _OF_VERDICT.get(told.verdict, ())
    return tuple(_placed(hint, told) for hint in hints)


def _placed(hint: str, told: Judgement) -> str:
    """A hint with the array's name and the lines in it."""
    found = told.finding
    array = (found.variable if found is not None else "") or "the array"
    other = found.other_line if found is not None else 0
    lines = f"line {told.line}" if told.line else "the kernel"
    if other and told.line and other != told.line:
        lines = f"lines {min(other, told.line)} and {max(other, told.line)}"
    return hint.replace("{array}", array).replace("{lines}", lines)


def _race(found: Finding) -> Hints:
    if found.other_did == "copy":
        return _RACE_COPY
    crosses = found.others == "blocks" or found.other_block not in (None, found.block)
    return _RACE_BLOCKS if crosses or found.space != "shared" else _RACE_SHARED


def _outside(found: Finding) -> Hints:
    if found.detail in ("space", "nowhere"):
        return _SPACE if found.detail == "space" else _NOWHERE
    return _BEFORE if found.address < 0 else _BEHIND


_OF_KIND: Mapping[str, Callable[[Finding], Hints]] = {
    "race": _race,
    "lockstep": lambda found: _LOCKSTEP,
    "unordered": lambda found: _UNORDERED,
    "async-order": lambda found: _ASYNC,
    "divergent-barrier": lambda found: _BARRIER,
    "warp-sync": lambda found: _WARP,
    "out-of-bounds": _outside,
    "uninitialized": lambda found: _UNWRITTEN_SHARED,
    "misaligned": lambda found: _MISALIGNED,
}
