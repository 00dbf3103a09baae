"""Calls of CUDA's that there is no simulation of: what each is about, and what a program can do in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from warpschool.programs.tools import SHIM

_RUNTIME = re.compile(r"^\s*API [\w* ]+?\b(cuda\w+)\(", re.MULTILINE)
_DRIVER = re.compile(r"^API CUresult (cu[A-Z]\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Refusal:
    """`what` the call is about, and what to do `instead`, as an imperative."""

    what: str
    instead: str


_REASONS = (
    (r"[Mm]ip[Mm]ap|mipmap", "mipmaps",
     "make an array of each level with cudaMallocArray, and let the kernel pick one"),
    (r"seamless", "filters across the edges of a cube map",
     "leave seamlessCubemap 0, so that each face is filtered alone"),
    (r"parse|sparse|GetPlane|Array\w*MemoryRequirements|MapArray", "sparse and planar arrays",
     "make whole arrays with cudaMallocArray"),
    (r"External|NvSci|Cig$", "memory shared with other interfaces", "copy through the host"),
    (r"Graphics|^cuGL|^cudaGL|^cuEGL|^cudaEGL|^cuVDPAU|^cudaVDPAU", "graphics", "copy the picture to the host"),
    (r"ExecAffinity|GreenCtx|ExecutionCtx|DevResource|DevSm|cuCtx(Record|Wait)Event",
     "parts of a device", "launch in streams of the whole device"),
    (r"Ipc|ShareableHandle|MemPool(Import|Export)|HandleForAddressRange", "memory of several processes",
     "use one process, with threads"),
    (r"Peer|P2P|Multicast|Fabric|LogicalEndpoint|MultiDevice|Clique|GPUDirect|HostAtomic",
     "several devices", "run on one, as on a machine with one GPU"),
    (r"Checkpoint|Coredump|Logs|AsyncNotification|ExportTable|ToolsId", "tools of the driver", "leave it out"),
    (r"TexRef|SurfRef", "texture references, which CUDA 12 dropped", "make a texture object"),
    (r"^cuParamSet|^cuLaunch(Grid|GridAsync)?$|^cuFuncSet(BlockShape|SharedSize)|^cuCtx(Attach|Synchronize_v2)",
     "launches as they were before CUDA 4", "call cuLaunchKernel"),
    (r"TensorMapEncodeIm2colWide", "im2col as Blackwell has it besides", "call cuTensorMapEncodeIm2col"),
    (r"TensorMapSetAllocationClass", "how far beside an array a GPU may read", "leave it out"),
    (r"Decompress", "an engine that unpacks", "unpack in a kernel, or on the host"),
    (r"WaitValue|WriteValue|BatchMemOp", "streams that wait for a value in memory", "record an event, and wait for it"),
    (r"Discard|Batch|WithAttributes", "batches of copies", "make a call for each copy"),
    (r"PoissonDistribution|DestroyDistribution", "tables of a discrete distribution",
     "call curand_poisson in the kernel"),
    (r"without NVIDIA's cuRAND", "tables of direction numbers", 'install them: pip install "warpschool[curand]"'),
)  # fmt: skip
_BESIDES = (
    (r"Graph.*(Conditional|UserObject|DeviceNode)|UserObject", "graphs that branch or own memory of the host's",
     "branch on the host, and free the memory behind the last launch"),
    (r"BeginCaptureToGraph|Recapture|UpdateCaptureDependencies|ExchangeStreamCaptureMode",
     "capture into a part of a graph", "capture a graph of its own, and add it as a child"),
    (r"Graph|Capture", "a rare call for graphs", "build the graph again, or capture it with cudaStreamBeginCapture"),
    (r"Library|cuKernel|cudaKernel|EnumerateFunctions|FunctionCount", "libraries of kernels",
     "load a module: cuModuleLoadData, cuModuleGetFunction"),
    (r"MemPool|PoolAsync", "pools of this kind", "use cudaMallocAsync, cudaMallocFromPoolAsync and cudaMemPoolCreate"),
)  # fmt: skip
"""The same of calls of the driver's that have no twin among the runtime's."""


@cache
def entry_points() -> tuple[frozenset[str], frozenset[str]]:
    """What the runtime library has: calls of the runtime, and calls of the driver by the names in its header."""
    text = "".join(path.read_text("utf-8") for path in sorted(SHIM.glob("*.cpp")))
    return frozenset(_RUNTIME.findall(text)), frozenset(_DRIVER.findall(text))


def refusal(call: str) -> Refusal:
    """Why a call is refused, and what to do."""
    found = _first(_REASONS, call)
    if found is None and re.match(r"cu[A-Z]", call):
        twin = "cuda" + re.sub(r"_v\d+|_ptsz", "", call)[2:]
        twin = re.sub(r"(Memcpy|Memset)\w*?(Async)?$", r"\1\2", twin)
        if twin in entry_points()[0]:
            return Refusal("a twin of a call that there is", f"call {twin}, as a program may use both interfaces")
    return found or _first(_BESIDES, call) or Refusal("a rare call", "leave it out")


def _first(reasons: tuple[tuple[str, str, str], ...], call: str) -> Refusal | None:
    return next((Refusal(what, instead) for pattern, what, instead in reasons if re.search(pattern, call)), None)
