"""A training step of VGG16 in mixed precision on a GPU, against PyTorch's autocast in the same run.

    python benchmarks/mixed_precision.py [--out FILE] [--seconds 1.0] [--tiles] [--ways compiled ...]

Ours is `mixed_step.py` in a CUDA graph. PyTorch runs the same network (no dropout) in channels_last with
torch.autocast for float16, GradScaler and its fused SGD with momentum, cuDNN in benchmark mode: eagerly, compiled by
torch.compile, and compiled with CUDA graphs. Before anything is timed, all gradients of both are compared with
float64's, an overflow must change nothing but the scale, and both learn a batch for some steps. Then a step of ours and
of PyTorch's are timed in turns, L2 flushed before each: in bursts between rests, and sustained. `parts` has every
launch of ours alone. `--tiles` tries other tiles for the filters' gradients.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch
from mixed_step import BATCH, FOUND, SCALE, MixedStep, Tiles, program
from networks_vgg import far, parameters, reference

import warpschool as ws
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.nn.vgg16 import VggForm

RATE, MOMENTUM = 1e-3, 0.9
REST: dict[str, Any] = {"rest_seconds": 0.5, "batch": 5, "warmup_runs": 2, "warmup_ms": 4.0}
QUICK = Rules(warmup_ms=1.0, min_samples=5, max_samples=9, max_seconds=0.1)
WAYS = {"eager": None, "compiled": "default", "compiled, CUDA graphs": "reduce-overhead"}
LEARNED_STEPS = 20
MOST_WORSE = 1.5
"""our gradients' distance from float64's, as a multiple of autocast's, at most"""
F = torch.nn.functional


class Theirs:
    """PyTorch's step: autocast, a scaler, fused SGD."""

    def __init__(self, model: Any, x: Any, label: Any, mode: str | None) -> None:
        self.model = copy.deepcopy(model).to(memory_format=torch.channels_last)
        self.x, self.label = x.to(memory_format=torch.channels_last), label
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=MOMENTUM, fused=True)
        self.scaler = torch.amp.GradScaler("cuda")
        self.run = self.model if mode is None else torch.compile(self.model, mode=mode)

    def backward(self) -> Any:
        """Scaled gradients; returns the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(self.run(self.x), self.label)
        self.scaler.scale(loss).backward()
        return loss

    def step(self) -> Any:
        loss = self.backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


class Ours:
    """Our step, and a CUDA graph of it."""

    def __init__(self, form: VggForm, start: dict[str, np.ndarray]) -> None:
        self.device = ws.get_device("gpu")
        sms = self.device.spec.sms
        self.step = MixedStep(form, start, device=self.device, rate=RATE, momentum=MOMENTUM, blocks=sms)
        self.stream = self.device.Stream(non_blocking=True)
        self.graph: Any = None

    def record(self) -> None:
        self.device.synchronize()
        with self.stream:
            self.stream.begin_capture()
            self.step.enqueue(self.stream)
            self.graph = self.stream.end_capture()

    def run(self) -> None:
        """The graph, with the current stream waiting at both ends."""
        current = cupy.cuda.get_current_stream()
        self.stream.wait_event(current.record())
        self.graph.launch(stream=self.stream)
        current.wait_event(self.stream.record())


def checked(form: VggForm, ours: Ours, model: Any, x: Any, label: Any) -> dict[str, Any]:
    """Our first step's gradients and autocast's against float64's; raises ArithmeticError if ours are worse."""
    theirs = Theirs(model, x, label, None)
    loss = float(theirs.backward().detach())
    scale = theirs.scaler.get_scale()
    cast = {name: value / scale for name, value in parameters(form, theirs.model, lambda p: p.grad).items()}
    del theirs
    exact = copy.deepcopy(model).double()
    loss64 = F.cross_entropy(exact(x.double()), label)
    loss64.backward()
    right = parameters(form, exact, lambda p: p.grad)
    del exact
    torch.cuda.empty_cache()
    ours.step.enqueue()
    own = ours.step.parameters("velocity")
    both = {"own": own, "pytorch": cast}
    apart = {who: {name: far(found[name], right[name]) for name in right} for who, found in both.items()}
    worst = {who: max(errors.values()) for who, errors in apart.items()}
    exact_loss = float(loss64.detach())
    print(f"loss {ours.step.loss:.5f}, autocast {loss:.5f}, float64 {exact_loss:.5f}; gradients off by {worst}")
    off = abs(ours.step.loss / exact_loss - 1)
    if not (off < 5e-3 and worst["own"] < MOST_WORSE * worst["pytorch"]):
        raise ArithmeticError(f"ours is not VGG16: loss off by {off:.2g}, gradients by {worst}")
    return {"loss": off, "loss_pytorch": abs(loss / exact_loss - 1), "gradients": worst}


def overflow(ours: Ours) -> None:
    """A scale that is far too large must change nothing but itself; raises ArithmeticError."""
    before, state = ours.step.parameters(), ours.step.state
    ours.step.arrays["state"].set(np.where(np.arange(8) == SCALE, np.float32(2.0**40), state))
    ours.step.enqueue()
    after = ours.step.state
    same = all(np.array_equal(before[name], values) for name, values in ours.step.parameters().items())
    ours.step.arrays["state"].set(state)
    if not same or after[SCALE] != 2.0**39 or after[FOUND]:
        raise ArithmeticError(f"an overflow went unnoticed: weights kept {same}, state {after}")
    print("an overflow changes only the scale")


def learned(ours: Ours, theirs: Theirs) -> dict[str, list[float]]:
    """Losses of some steps on one batch."""
    found: dict[str, list[float]] = {"own": [], "pytorch": []}
    for _ in range(LEARNED_STEPS):
        ours.run()
        cupy.cuda.get_current_stream().synchronize()
        found["own"].append(ours.step.loss)
        found["pytorch"].append(float(theirs.step().detach()))
    print("losses", {who: [round(values[0], 4), round(values[-1], 4)] for who, values in found.items()}, flush=True)
    return found


def parts(ours: Ours) -> list[dict[str, Any]]:
    """Every call of a step alone."""
    rows: list[dict[str, Any]] = []
    for call in ours.step.calls:
        rows.append({"part": call.part, "layer": call.layer, "ms": alone_ms(call.enqueue())})
        print(f"{call.part:22s} {call.layer:7s} {rows[-1]['ms']:7.4f} ms", flush=True)
    for part in dict.fromkeys(row["part"] for row in rows):
        print(f"{part:22s} {sum(row['ms'] for row in rows if row['part'] == part):7.4f} ms")
    return rows


def alone_ms(work: Callable[[], None]) -> float:
    found = ws.benchmark(work, device="gpu", rules=QUICK).median_ms
    assert found is not None
    return found


def other_tiles(channels: int, filters: int) -> Iterator[Tiles]:
    """Tiles that may suit a filters' gradient."""
    if channels == 32:
        for places, stages in ((64, 12), (64, 16), (128, 8), (256, 4)):
            yield {"TSF": 64, "BOXES": 1, "BOX": 32, "PLACES": places, "CONSUMERS": 1, "STAGES": stages, "CLUSTER": 1,
                   "CLUSTER_F": 1}  # fmt: skip
    elif filters == 64:
        for places, stages in ((32, 5), (64, 2), (16, 10)):
            yield {"TSF": 64, "BOXES": 9, "PLACES": places, "CONSUMERS": 3, "KEPT": 152, "STAGES": stages, "CLUSTER": 1,
                   "CLUSTER_F": 1}  # fmt: skip
    else:
        for boxes, stages, cluster, cluster_f in ((3, 5, 1, 1), (3, 5, 2, 1), (4, 4, 2, 2), (4, 4, 2, 1), (4, 4, 1, 1)):
            of_filter = channels // 64 * 9
            if of_filter % (boxes * cluster // cluster_f) == 0 and filters % (128 * cluster_f) == 0:
                yield {"TSF": 128, "BOXES": boxes, "STAGES": stages, "CLUSTER": cluster, "CLUSTER_F": cluster_f}


def tile_trial(ours: Ours) -> list[dict[str, Any]]:
    """Other tiles for each distinct gradient of filters; results must agree with those of the tiles in use."""
    rows, seen = [], set()
    for call in ours.step.calls:
        shape = tuple(call.sizes.values())
        if call.part != "filters" or shape in seen:
            continue
        seen.add(shape)
        sizes = {name: int(value) for name, value in call.sizes.items()}
        for tiles in other_tiles(sizes["C"], sizes["F"]):
            blocks = ours.step.blocks // tiles["CLUSTER"] * tiles["CLUSTER"]
            used = program("filter_gradient", ours.device, tiles | {"BLOCKS": blocks})
            found = []
            for which in (call.program, used):
                call.arrays["dw"].fill(0)
                launches = which.enqueue(sizes, call.arrays)
                found.append(call.arrays["dw"].get())
            wrong = float(np.linalg.norm(found[1] - found[0]) / np.linalg.norm(found[0]))
            ms = alone_ms(repeated(launches))
            flops = 2 * sizes["BATCH"] * sizes["H"] * sizes["W"] * sizes["C"] * sizes["F"] * sizes["R"] ** 2
            rows.append({"layer": call.layer, "tiles": tiles, "ms": ms, "apart": wrong})
            print(f"{call.layer:7s} {ms:7.4f} ms {flops / ms * 1e-9:6.0f} TFLOP/s, apart "
                  f"{wrong:.1e} {tiles}", flush=True)  # fmt: skip
    return rows


def timed(ours: Ours, theirs: Theirs, way: str, rules: Rules) -> dict[str, Any]:
    """Both steps in turns."""
    found = ws.benchmark_ratio(ours.run, theirs.step, device="gpu", rules=rules)
    mine, other = found.candidate.median_ms, found.reference.median_ms
    assert mine and other and found.speed and found.error is not None
    row = {"pytorch": way, "bursts": rules.rest_seconds > 0, "time_ms": mine, "pytorch_ms": other,
           "ratio": 1 / found.speed, "ratio_error": found.error, "stable": found.stable}  # fmt: skip
    print(f"{way:22s} {'bursts' if row['bursts'] else 'sustained':9s} {mine:7.3f} ms, PyTorch {other:7.3f} ms: "
          f"{row['ratio']:.3f} (error {found.error:.1%})", flush=True)  # fmt: skip
    return row


def measured(form: VggForm, options: argparse.Namespace) -> dict[str, Any]:
    model, x, label = reference(form, BATCH)
    start = parameters(form, model, lambda p: p)
    ours = Ours(form, start)
    ours.step.give(x.cpu().numpy(), label.cpu().numpy())
    result: dict[str, Any] = {"errors": checked(form, ours, model, x, label)}
    overflow(ours)
    ours.record()
    ours.run()
    result["parts"] = parts(ours)
    if options.tiles:
        result["tiles"] = tile_trial(ours)
    sustained = Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10)
    rows = []
    for way in options.ways:
        fresh = Ours(form, start)
        fresh.step.give(x.cpu().numpy(), label.cpu().numpy())
        fresh.step.enqueue()
        fresh.record()
        theirs = Theirs(model, x, label, WAYS[way])
        theirs.step()
        result.setdefault("losses", {})[way] = learned(fresh, theirs)
        rows.append(timed(fresh, theirs, way, replace(sustained, **REST)))
        rows.append(timed(fresh, theirs, way, sustained))
        del fresh, theirs
        torch.cuda.empty_cache()
    return result | {"rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=1.0, help="at most this long for one comparison")
    parser.add_argument("--tiles", action="store_true", help="try other tiles")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    device = ws.get_device("gpu")
    form = VggForm()
    result = {
        "what": "a training step of VGG16 in mixed precision against PyTorch's autocast", "device": device.description,
        "cuda_driver": device.driver, "cupy": cupy.__version__, "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(), "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "flush": "L2 flushed before each sample", "rest": REST, "batch": BATCH, "image": form.size,
    }  # fmt: skip
    result |= measured(form, options)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
