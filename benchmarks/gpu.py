"""Moments and a minimax fit of rows that lie on a GPU, beside what the GPU itself can do.

    ./run bench --only gpu
    python -m benchmarks.gpu [--rows 20000000] [--features 200] [--groups 2]

Rows are float32 torch tensors on the device, labels int64 there too. In the same run it measures
how fast the device copies memory and multiplies matrices in float64. The time that the moments
need at least is the larger of: reading each number once at the copy's bandwidth, and 2 n p^2
float64 operations at the speed of the product of two large square matrices. Without a GPU the
first skips; the second runs on the CPU, with fewer rows, and says so.
"""

import argparse
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.report import Measured
from benchmarks.results import machine, table_of
from fairspan import FairPCA, GroupMoments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.opening import open_group_rows

REPETITIONS = 5
PACKAGES = ("fairspan", "numpy", "torch")


@dataclass(frozen=True)
class Limits:
    """What the device can do, measured."""

    copy: float  # bytes read and written per second
    float32: float  # operations per second
    float64: float


@dataclass(frozen=True)
class Seconds:
    """What fairspan needed."""

    moments: float
    fit: float
    gap: float
    status: str


def seconds_of(run: Callable[[], object], device: torch.device) -> float:
    """Median time after a warm-up, from an idle device to an idle device."""
    times = []
    for _ in range(REPETITIONS + 1):
        synchronize(device)
        start = perf_counter()
        run()
        synchronize(device)
        times.append(perf_counter() - start)
    return median(times[1:])


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def limits_of(device: torch.device) -> Limits:
    """Copy a large tensor; multiply large square matrices."""
    is_gpu = device.type == "cuda"
    source = torch.zeros(2**30 if is_gpu else 2**26, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.numel() / seconds_of(lambda: target.copy_(source), device)
    size = 8192 if is_gpu else 1024
    speeds = {}
    for dtype in (torch.float32, torch.float64):
        a = torch.rand((size, size), dtype=dtype, device=device)
        b = torch.rand((size, size), dtype=dtype, device=device)
        out = torch.empty_like(a)
        seconds = seconds_of(partial(torch.matmul, a, b, out=out), device)
        speeds[dtype] = 2 * size**3 / seconds
    return Limits(copy, speeds[torch.float32], speeds[torch.float64])


def rows_on(device: torch.device, n: int, p: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated rows in groups of different sizes and shapes, made where they stay."""
    torch.manual_seed(0)
    X = torch.empty((n, p), dtype=torch.float32, device=device)
    labels = torch.empty(n, dtype=torch.int64, device=device)
    mixing = torch.randn((p, p), device=device) / p**0.5
    spread = torch.rand((k, p), device=device) * 2 + 0.2
    for start in range(0, n, 2**18):
        own = labels[start : start + 2**18]
        # Group 0 has half of the rows, and the others share the rest.
        draw = torch.randint(0, 2 * max(k - 1, 1), own.shape, device=device)
        own.copy_(torch.where(draw < k, draw, 0))
        noise = torch.randn((len(own), p), device=device) * spread[own]
        X[start : start + 2**18] = noise @ mixing + 3
    return X, labels


def check(X: torch.Tensor, labels: torch.Tensor) -> None:
    """Compare with numpy on some of the rows."""
    X, labels = X[:50_000], labels[:50_000]
    there = GroupMoments.from_rows(X, labels)
    here = GroupMoments.from_rows(X.cpu().numpy(), labels.cpu().numpy())
    error = abs(there.scatters - here.scatters).max() / abs(here.scatters).max()
    assert error <= 1e-9, f"the moments differ from numpy's by {error}"


def seconds_needed(X: torch.Tensor, labels: torch.Tensor, numbers: int | None) -> Seconds:
    """Time one pass over the rows, and a fit on what it gave."""
    device = X.device
    opened: Any = open_group_rows(X, labels)
    rows = opened if numbers is None else replace(opened, block_entries=numbers)
    seconds = seconds_of(lambda: compute_group_moments(rows), device)
    moments, model = compute_group_moments(rows), FairPCA(min(10, X.shape[1]))
    fit = seconds_of(lambda: model.fit_moments(moments), device)
    return Seconds(seconds, fit, model.solution_.gap, model.solution_.status)


def report(X: torch.Tensor, limits: Limits, measured: Seconds) -> str:
    """The measured times beside the binding limit, in Markdown."""
    n, p = X.shape
    moved, operations = X.nbytes, 2 * n * p * p
    bounds = {"bytes moved": moved / limits.copy, "arithmetic": operations / limits.float64}
    binding = max(bounds, key=lambda name: bounds[name])
    lines = [
        ["copy", f"{limits.copy / 1e9:,.0f} GB/s read and written"],
        ["float32 product", f"{limits.float32 / 1e12:.2f} TFLOP/s"],
        ["float64 product", f"{limits.float64 / 1e12:.2f} TFLOP/s"],
        ["moments", f"{measured.moments:.4f} s, {moved / measured.moments / 1e9:,.1f} GB/s"],
        ["minimax fit from them", f"{measured.fit:.4f} s, {measured.status}"],
        ["least for bytes moved", f"{bounds['bytes moved']:.4f} s"],
        ["least for arithmetic", f"{bounds['arithmetic']:.4f} s"],
        [
            f"share of the binding limit ({binding})",
            f"{bounds[binding] / measured.moments:.0%} of the moments, "
            f"{bounds[binding] / (measured.moments + measured.fit):.0%} with the fit",
        ],
    ]
    return table_of(["what", "measured"], lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, help="20 million, or 200,000 without a GPU")
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--block-numbers", type=int, help="numbers in a block, to find the best")
    return parser.parse_args()


def measure(effort: Effort) -> Measured:
    """The usual rows, on a GPU.

    Raises
    ------
    SkippedError
        There is none.
    """
    if not torch.cuda.is_available():
        raise SkippedError("there is no GPU that PyTorch can use")
    return Measured(compare(1_000_000 if effort.quick else 20_000_000), PACKAGES)


def compare(n: int, p: int = 200, k: int = 2, numbers: int | None = None) -> str:
    """Make rows, check the moments, and time them with a fit."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    X, labels = rows_on(device, n, p, k)
    check(X, labels)
    with threadpool_limits(1):
        text = report(X, limits_of(device), seconds_needed(X, labels, numbers))
    name = torch.cuda.get_device_name(device) if is_gpu else f"CPU ({platform.machine()})"
    driver = f", CUDA {torch.version.cuda}" if is_gpu else ""
    blocks = f"blocks of {numbers or 'the usual'} numbers"
    return f"{name}{driver}: {n:,} x {p} float32, {k} groups; {blocks}\n\n{text}"


def main() -> None:
    """Parse, measure, print."""
    options = parsed()
    is_gpu = torch.cuda.is_available()
    if not is_gpu:
        print("There is no GPU: these are figures of the CPU, for checking this program only\n")
    n = options.rows or (20_000_000 if is_gpu else 200_000)
    text = compare(n, options.features, options.groups, options.block_numbers)
    print(f"{machine(PACKAGES)}\n\n{text}")


if __name__ == "__main__":
    main()
