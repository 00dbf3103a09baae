"""Processor time of whole programs: building one, ten thousand launches, a transpose of 2048 x 2048.

    python benchmarks/programs.py [--repeat 3] [--write]

Counted are user and system time of this process and its children, the least of several. A build has an empty cache, but
for the runtime library, which is made once on a machine. `--write` puts the figures into `results/programs.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import processor

from warpschool.programs import build, find_tools, run_program

RESULTS = Path(__file__).resolve().parent / "results" / "programs.json"
LAUNCHES, SIDE = 10_000, 2048
_LAUNCHES = f"""
#include <cstdio>
__global__ void scale(float* x, float by, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}}
int main()
{{
    float* x;
    cudaMalloc(&x, 1024);
    cudaMemset(x, 0, 1024);
    for (int k = 0; k < {LAUNCHES}; k++) scale<<<1, 256>>>(x, 2, 256);
    puts(cudaGetErrorName(cudaDeviceSynchronize()));
    cudaFree(x);
    return 0;
}}
"""
_TRANSPOSE = f"""
#include <cstdio>
#include <vector>
constexpr int side = {SIDE}, tile = 32, rows = 8;
__global__ void transpose(float* out, const float* in)
{{
    __shared__ float part[tile][tile + 1];
    int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
    for (int k = 0; k < tile; k += rows) part[threadIdx.y + k][threadIdx.x] = in[(y + k) * side + x];
    __syncthreads();
    x = blockIdx.y * tile + threadIdx.x, y = blockIdx.x * tile + threadIdx.y;
    for (int k = 0; k < tile; k += rows) out[(y + k) * side + x] = part[threadIdx.x][threadIdx.y + k];
}}
int main()
{{
    std::vector<float> a(side * side), b(side * side);
    for (size_t k = 0; k < a.size(); k++) a[k] = k % 1000;
    float *in, *out;
    cudaMalloc(&in, a.size() * 4);
    cudaMalloc(&out, a.size() * 4);
    cudaMemcpy(in, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    transpose<<<dim3(side / tile, side / tile), dim3(tile, rows)>>>(out, in);
    cudaMemcpy(b.data(), out, a.size() * 4, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) wrong += b[y * side + x] != a[x * side + y];
    puts(wrong ? "FAIL" : "cudaSuccess");
    cudaFree(in);
    cudaFree(out);
    return 0;
}}
"""


def _least(work: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        before = processor.spent_s()
        work()
        times.append(processor.spent_s() - before)
    return round(min(times), 2)


def _hundred_lines() -> str:
    """The transpose, with as many other kernels as make it a hundred lines."""
    more, number = "", 0
    while (more + _TRANSPOSE).count("\n") < 100:
        more += f"__global__ void more_{number}(float* x)\n{{\n    x[threadIdx.x] += {number};\n}}\n"
        number += 1
    return more + _TRANSPOSE


def measure(folder: Path, repeat: int) -> dict[str, float]:
    """Seconds of processor time by what was done. Raises RuntimeError where a program says that it failed."""
    texts = {"launches": _LAUNCHES, "transpose": _TRANSPOSE, "hundred_lines": _hundred_lines()}
    paths = {name: folder / f"{name}.cu" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, "utf-8")
    built = {name: build([path]).path for name, path in paths.items()}

    def once(name: str) -> None:
        report = run_program(built[name], capture=True)
        if report.output != "cudaSuccess\n" or report.notes:
            raise RuntimeError(f"{name}: {report.output} {report.notes}")

    def afresh() -> None:
        number = sum(1 for _ in folder.iterdir())
        path = folder / f"again_{number}.cu"
        path.write_text(texts["hundred_lines"], "utf-8")
        build([path])

    return {
        f"{LAUNCHES} launches": _least(lambda: once("launches"), repeat),
        f"transpose of {SIDE}": _least(lambda: once("transpose"), repeat),
        "build of 100 lines": _least(afresh, repeat),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(Path(folder), given.repeat)
    tools = find_tools()
    found = {
        "cpu": processor.name(), "cores": os.cpu_count(), "nvcc": tools.cuda, "host": tools.host_version,
        "processor_seconds": seconds,
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if given.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
