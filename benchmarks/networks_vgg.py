"""VGG16 on a GPU against PyTorch in the same run: inference, a training step, and each layer of both.

    python benchmarks/networks_vgg.py [--out FILE] [--batch 32] [--seconds 1.0] [--totals]

PyTorch runs eagerly with cuDNN in benchmark mode, NCHW, float32, TF32 off; ours are the reference kernels of labs 09,
11 and 13. Before anything is timed, scores, loss and all gradients are compared with PyTorch's, and both with float64.
Then they are timed in turns, the L2 cache flushed before each sample; a training step is forward, cross entropy,
backward and stochastic gradient descent with momentum, in one row Adam (PyTorch's fused one). `ratio` is our time as a
multiple of PyTorch's: below 1 is faster. A layer of ours adds bias, ReLU and pooling in the same kernels. Forward,
cuDNN's times are those of convolution and bias alone; backward, those of the whole layer. `from PyTorch` is ours as one
autograd function. `side by side` is a recording in which kernels that need nothing of each other may run at once; its
gradients are those of the step in order, bit by bit. `--totals` leaves the layers out; rows of layers that FILE holds
already, from the same machine and versions, stay.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None

import numpy as np

import warpschool as ws
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.nn.session import Kernels, Session
from warpschool.nn.side_by_side import record
from warpschool.nn.torch_vgg16 import Vgg16
from warpschool.nn.training import Adam, Sgd
from warpschool.nn.vgg16 import Inference, SmallBatchDense, TrainingStep, VggForm, inference_graph, step_graph

BACKWARD = ("01_winograd_backward_data", "02_winograd_backward_filter", "03_first_layer_backward",
            "05_fc_small_batch_backward")  # fmt: skip
RATE, MOMENTUM = 1e-3, 0.9
F = torch.nn.functional


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement; `part`: "inference" or "training step", both also "... from PyTorch"; "forward", "backward"."""

    part: str
    layer: str
    time_ms: float
    pytorch_ms: float
    ratio: float
    ratio_error: float
    stable: bool


def reference(form: VggForm, batch: int) -> tuple[Any, Any, Any]:
    """PyTorch's VGG16 without dropout, weights after He et al., and a batch of images and labels."""
    torch.manual_seed(1)
    modules: list[Any] = []
    channels, side = form.channels, form.size
    for layer in form.layers():
        if isinstance(layer, SmallBatchDense):
            inputs = channels * side**2
            modules += ([torch.nn.Flatten()] if side > 1 else []) + [torch.nn.Linear(inputs, layer.outputs)]
            modules += [torch.nn.ReLU(inplace=True)] if layer.relu else []
            channels, side = layer.outputs, 1
            continue
        modules += [torch.nn.Conv2d(channels, layer.filters, 3, padding=1), torch.nn.ReLU(inplace=True)]
        channels = layer.filters
        if getattr(layer, "pool", 1) == 2:
            modules.append(torch.nn.MaxPool2d(2))
            side //= 2
    model = torch.nn.Sequential(*modules).cuda()
    for name, values in model.named_parameters():
        if name.endswith("weight"):
            torch.nn.init.kaiming_normal_(values)
    x = torch.rand((batch, form.channels, form.size, form.size), device="cuda") * 2 - 1
    return model, x, torch.randint(0, form.classes, (batch,), device="cuda")


def weighted(model: Any) -> list[Any]:
    """The modules with parameters, in order."""
    return [module for module in model if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear))]


def parameters(form: VggForm, model: Any, what: Callable[[Any], Any]) -> dict[str, Any]:
    """Parameters or their gradients by our names, in our layout, as host arrays."""
    found = {}
    for layer, module in zip(form.layers(), weighted(model), strict=True):
        weight = what(module.weight).detach()
        weight = weight.t() if isinstance(module, torch.nn.Linear) else weight
        found[f"{layer.name}.weight"] = weight.contiguous().cpu().numpy()
        found[f"{layer.name}.bias"] = what(module.bias).detach().cpu().numpy()
    return found


def compiled(form: VggForm, batch: int) -> Kernels:
    """All kernels, compiled side by side."""
    kernels = Kernels(device="gpu")
    calls = [*inference_graph(form, 1).calls, *step_graph(form, 1).calls]
    distinct = {(call.step, call.constants): call for call in calls}
    with ThreadPoolExecutor() as pool:
        list(pool.map(kernels.program, distinct.values()))
    return kernels


def far(own: Any, other: Any) -> float:
    """How far two arrays are apart, as a part of the second one's norm."""
    a, b = (cupy.asarray(values).astype(cupy.float64) for values in (own, other))
    return float(cupy.linalg.norm(a - b) / cupy.linalg.norm(b))


def compared(form: VggForm, step: TrainingStep, model: Any, x: Any, label: Any) -> dict[str, float]:
    """Make one step of both and compare loss, and the gradients of all layers; raises ArithmeticError.

    `own` and `pytorch`: how far the worst gradient of each is from float64's.
    """
    own = step(x.cpu().numpy(), label.cpu().numpy())
    ours = step.gradients
    found = {}
    for kind in ("float32", "float64"):
        exact = copy.deepcopy(model).to(getattr(torch, kind))
        loss = F.cross_entropy(exact(x.to(getattr(torch, kind))), label)
        loss.backward()
        found[kind] = float(loss.detach()), parameters(form, exact, lambda p: p.grad)
        del exact
        torch.cuda.empty_cache()
    (_, theirs), (loss64, right) = found["float32"], found["float64"]
    worst = {
        "own": max(far(ours[name], right[name]) for name in right),
        "pytorch": max(far(theirs[name], right[name]) for name in right),
    }
    errors = {"loss": abs(own / loss64 - 1), **{f"gradients_{who}": error for who, error in worst.items()}}
    print(f"loss {own:.6f}, in float64 {loss64:.6f}; worst gradients: {errors}", flush=True)
    if not (errors["loss"] < 1e-4 and errors["gradients_own"] < 1e-2):
        raise ArithmeticError(f"ours is not PyTorch's: {errors}")
    return errors


class Bench:
    """Times in turns and collects rows."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.rows = rules, list[Row]()

    def add(self, part: str, layer: str, own: Callable[[], Any], other: Callable[[], Any]) -> None:
        """Time ours in turns with theirs."""
        found = ws.benchmark_ratio(own, other, device="gpu", rules=self.rules)
        mine, theirs = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and theirs is not None and found.speed is not None and found.error is not None
        row = Row(
            part=part, layer=layer, time_ms=mine, pytorch_ms=theirs, ratio=1 / found.speed, ratio_error=found.error,
            stable=found.stable,
        )  # fmt: skip
        self.rows.append(row)
        doubt = "" if row.stable else ", not stable"
        print(
            f"{part:26s} {layer:7s} {mine:8.4f} ms, PyTorch {theirs:8.4f}: {row.ratio:5.3f} "
            f"(error {row.ratio_error:.1%}{doubt})", flush=True,
        )  # fmt: skip


def again(session: Session, layer: str, *, back: bool) -> Callable[[], None]:
    """A function that launches a layer's kernels once more."""
    chosen = [
        launch for call, launches in session.launches for launch in launches
        if call.layer == layer and (call.step.split("/")[-1] in BACKWARD) == back
    ]  # fmt: skip
    return repeated(chosen)


def layers_forward(bench: Bench, form: VggForm, network: Inference, model: Any, x: Any) -> None:
    """Each layer forward; cuDNN's convolutions with bias, without ReLU and pooling."""
    values = x
    modules = iter(model)
    with torch.no_grad():
        for layer in form.layers():
            module = next(m for m in modules if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)))
            given = values.flatten(1) if isinstance(module, torch.nn.Linear) else values
            values = module(given)
            own = again(network.session, layer.name, back=False)
            bench.add("forward", layer.name, own, partial(module, given))
            values = values.relu()
            if getattr(layer, "pool", 1) == 2:
                values = F.max_pool2d(values, 2)


def layers_backward(bench: Bench, form: VggForm, step: TrainingStep, model: Any, x: Any) -> None:
    """Each layer backward, ReLU and pooling included."""
    values = x
    for layer, module in zip(form.layers(), weighted(model), strict=True):
        given = values.flatten(1) if isinstance(module, torch.nn.Linear) else values
        given = given.detach().requires_grad_(layer.name != "conv1")
        result = module(given)
        result = result.relu() if getattr(layer, "relu", True) else result
        result = F.max_pool2d(result, 2) if getattr(layer, "pool", 1) == 2 else result
        wanted = [v for v in (given, module.weight, module.bias) if v.requires_grad]
        slope = torch.rand_like(result)

        def theirs(y: Any = result, of: Any = wanted, dy: Any = slope) -> None:
            torch.autograd.grad(y, of, dy, retain_graph=True)

        bench.add("backward", layer.name, again(step.session, layer.name, back=True), theirs)
        values = result.detach()


def totals(
    bench: Bench, kernels: Kernels, network: Inference, step: TrainingStep, model: Any, x: Any, label: Any,
    start: Mapping[str, Any],
) -> None:  # fmt: skip
    """The whole network forward and a step of training, by Adam too; also called from PyTorch as a function."""
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)

    def inference() -> None:
        with torch.no_grad():
            model(x)

    def training() -> None:
        sgd.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), label).backward()
        sgd.step()

    bench.add("inference", "all", network.run, inference)
    bench.add("training step", "all", step.run, training)
    module = Vgg16(network.form, batch=network.batch, kernels=kernels)
    own = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)

    def module_inference() -> None:
        with torch.no_grad():
            module(x)

    def module_training() -> None:
        own.zero_grad(set_to_none=True)
        F.cross_entropy(module(x), label).backward()
        own.step()

    adam = TrainingStep(network.form, kernels, start, batch=network.batch, optimizer=Adam(rate=RATE))
    theirs = copy.deepcopy(model)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=RATE, fused=True)

    def adam_training() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(theirs(x), label).backward()
        optimizer.step()

    bench.add("training step, Adam", "all", adam.run, adam_training)
    bench.add("training step, side by side", "all", side_by_side(network.form, kernels, start, step), training)
    bench.add("inference from PyTorch", "all", module_inference, inference)
    bench.add("training step from PyTorch", "all", module_training, training)


def side_by_side(
    form: VggForm, kernels: Kernels, start: Mapping[str, Any], ordered: TrainingStep
) -> Callable[[], None]:  # fmt: skip
    """A training step from a recording in two queues; raises ArithmeticError unless its gradients are the same."""
    stream = kernels.device.Stream(non_blocking=True)
    step = TrainingStep(form, kernels, start, batch=ordered.batch, optimizer=Sgd(rate=RATE, momentum=MOMENTUM),
                        stream=stream, guarded=True)  # fmt: skip
    for name in ("x", "label", "parameters"):
        step.session[name].set(ordered.session[name].get())
    kernels.device.synchronize()
    step.session.run()
    graph = record(step.session, stream)
    graph.launch(stream=stream)
    ordered.session.run()
    if not np.array_equal(step.fetch("gradients"), ordered.fetch("gradients")):
        raise ArithmeticError("side by side, a step has other gradients than in order")
    print(f"side by side: {sum(1 for _ in step.session.parts())} launches", flush=True)

    def run() -> None:
        current = cupy.cuda.get_current_stream()
        stream.wait_event(current.record())
        graph.launch(stream=stream)
        step.update()
        current.wait_event(stream.record())

    return run


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """The figures that are asked for, and the sums of the layers."""
    found = {row.part: row.ratio for row in rows if row.layer == "all"}
    for part in ("forward", "backward"):
        chosen = [row for row in rows if row.part == part]
        if chosen:
            found[f"{part}_ms"] = sum(row.time_ms for row in chosen)
            found[f"{part}_pytorch_ms"] = sum(row.pytorch_ms for row in chosen)
    return found


def kept(path: Path, now: Mapping[str, Any]) -> list[Row]:
    """The rows of layers in an earlier file, if it is from the same machine and versions."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    same = ("device", "cuda_driver", "torch", "cudnn", "nvrtc", "tf32", "batch", "image")
    if any(before.get(key) != now[key] for key in same):
        return []
    return [Row(**row) for row in before["rows"] if row["part"] in ("forward", "backward")]


def main() -> None:
    """Check, measure, print a line for each, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0, help="at most this long for one measurement")
    parser.add_argument("--totals", action="store_true", help="only the whole network")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    form = VggForm()
    kernels = compiled(form, options.batch)
    print("compiled", flush=True)
    model, x, label = reference(form, options.batch)
    start = parameters(form, model, lambda p: p)
    step = TrainingStep(form, kernels, start, batch=options.batch, optimizer=Sgd(rate=RATE, momentum=MOMENTUM))
    errors = compared(form, step, model, x, label)
    network = Inference(form, kernels, start, batch=options.batch)
    with torch.no_grad():
        errors["scores"] = far(network.scores(x.cpu().numpy()), model(x).detach())
    print(f"scores differ by {errors['scores']:.1e}", flush=True)
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10))
    totals(bench, kernels, network, step, model, x, label, start)
    if not options.totals:
        layers_forward(bench, form, network, model, x)
        layers_backward(bench, form, step, model, x)
    print(json.dumps(summary(bench.rows), indent=1))
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "what": "VGG16 against PyTorch", "device": device.description, "cuda_driver": device.driver,
            "cupy": cupy.__version__, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "flush": "L2 flushed before each sample",
            "tf32": False, "batch": options.batch, "image": form.size, "errors": errors,
            "arena_bytes": {"inference": network.session.layout.nbytes, "training": step.session.layout.nbytes},
        }  # fmt: skip
        rows = [*bench.rows, *(kept(options.out, result) if options.totals else [])]
        result |= {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
