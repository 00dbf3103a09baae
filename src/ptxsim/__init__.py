"""A GPU simulator: PTX in; results, counters and hazards out.

    module = ptxsim.parse(text)                                 # -> Module; raises PtxSyntaxError
    memory = ptxsim.Memory()                                    # device memory: allocate, view, free
    kernel = module.kernel("scale")                             # -> SimKernel; raises UnsupportedInstruction
    record = kernel.launch(grid, block, params, memory)         # -> LaunchRecord(counters, lines, hazards, printed)
    result = ptxsim.oracle.run(kernel, grid, block, params, memory)         # the same by a plain interpreter, slowly
    result = ptxsim.trace(kernel, grid, block, params, memory, watcher)     # one block of it, with somebody watching

Public modules: `errors` (everything that is raised on purpose), `counters` (the table of what is counted), `limits`
(what CUDA and each GPU allow), `oracle`, `isa` (the table of instructions), `texture` (texture and surface objects),
`fragments` (which lane holds which element of a matrix), `cache` (files of compiled code), `lazy` (how names like these
are loaded late). Everything else is internal. README.md beside this file has an example.

Nothing heavy is imported here: each name is loaded when it is first used, and llvmlite with the first launch.
"""

from ptxsim.lazy import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:  # the one list of public names: `ptxsim.lazy` reads it
    from ptxsim import (
        cache as cache,
        counters as counters,
        errors as errors,
        fragments as fragments,
        isa as isa,
        limits as limits,
        oracle as oracle,
        texture as texture,
    )
    from ptxsim.codegen.host import simd as simd
    from ptxsim.cores import available_threads as available_threads
    from ptxsim.finding import Finding as Finding
    from ptxsim.memory import Allocation as Allocation, Memory as Memory
    from ptxsim.module import Module as Module, SimKernel as SimKernel, parse as parse, prepare as prepare
    from ptxsim.oracle import MemoryRequest as MemoryRequest, Watcher as Watcher, trace as trace
    from ptxsim.record import LaunchRecord as LaunchRecord, Reach as Reach, Touched as Touched
    from ptxsim.run.threads import launching_thread as launching_thread
    from ptxsim.syntax.program import source_name as source_name

__getattr__, __dir__ = public_names(__name__)
