"""Moments and a minimax fit of rows on a GPU, compared with the limits of the GPU.

    ./run bench --only gpu
    python -m benchmarks.gpu [--rows 20000000] [--features 200] [--groups 2]

Rows are float32 torch tensors on the device, as are their int64 labels. The same run measures how
fast the device copies memory and multiplies matrices in float64. A lower bound on the time of the
moments is the larger of: reading each number once at the bandwidth of the copy, and 2 n p^2 float64
operations at the speed of the product of two large square matrices. Without a GPU the first command
skips this section; the second runs on the CPU, with fewer rows, and prints a note.
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
from benchmarks.measurement import describe_machine, format_table
from benchmarks.report import SectionContent
from fairspan import FairPCA, GroupMoments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.opening import open_group_rows

REPETITIONS = 5
PACKAGES = ("fairspan", "numpy", "torch")


@dataclass(frozen=True)
class DeviceSpeed:
    """Measured speeds of the device.

    Attributes
    ----------
    copy : float
        Bytes read and written per second.
    float32, float64 : float
        Operations per second of a product of matrices.
    """

    copy: float
    float32: float
    float64: float


@dataclass(frozen=True)
class FairSpanTimes:
    """Seconds of the moments and of the fit from them, with gap and status of its certificate."""

    moments: float
    fit: float
    gap: float
    status: str


def median_seconds_on_device(run: Callable[[], object], device: torch.device) -> float:
    """Return the median time after a warm-up, each from an idle device to an idle device."""
    times = []
    for _ in range(REPETITIONS + 1):
        synchronize(device)
        start = perf_counter()
        run()
        synchronize(device)
        times.append(perf_counter() - start)
    return median(times[1:])


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished; other devices have when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_device(device: torch.device) -> DeviceSpeed:
    """Time the copy of a large tensor and products of large square matrices."""
    is_gpu = device.type == "cuda"
    source = torch.zeros(2**30 if is_gpu else 2**26, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.numel() / median_seconds_on_device(lambda: target.copy_(source), device)
    size = 8192 if is_gpu else 1024
    speeds = {}
    for dtype in (torch.float32, torch.float64):
        a = torch.rand((size, size), dtype=dtype, device=device)
        b = torch.rand((size, size), dtype=dtype, device=device)
        out = torch.empty_like(a)
        seconds = median_seconds_on_device(partial(torch.matmul, a, b, out=out), device)
        speeds[dtype] = 2 * size**3 / seconds
    return DeviceSpeed(copy, speeds[torch.float32], speeds[torch.float64])


def make_rows_on_device(
    device: torch.device, n: int, p: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw correlated rows of k groups of different sizes and covariances on the device."""
    torch.manual_seed(0)
    X = torch.empty((n, p), dtype=torch.float32, device=device)
    labels = torch.empty(n, dtype=torch.int64, device=device)
    mixing = torch.randn((p, p), device=device) / p**0.5
    deviations = torch.rand((k, p), device=device) * 2 + 0.2
    for start in range(0, n, 2**18):
        block_labels = labels[start : start + 2**18]
        # Group 0 has half of the rows, and the others share the rest.
        draw = torch.randint(0, 2 * max(k - 1, 1), block_labels.shape, device=device)
        block_labels.copy_(torch.where(draw < k, draw, 0))
        noise = torch.randn((len(block_labels), p), device=device) * deviations[block_labels]
        X[start : start + 2**18] = noise @ mixing + 3
    return X, labels


def check_moments(X: torch.Tensor, labels: torch.Tensor) -> None:
    """Compare the moments of the first rows with those that numpy gives."""
    X, labels = X[:50_000], labels[:50_000]
    on_device = GroupMoments.from_rows(X, labels)
    on_host = GroupMoments.from_rows(X.cpu().numpy(), labels.cpu().numpy())
    error = abs(on_device.scatters - on_host.scatters).max() / abs(on_host.scatters).max()
    assert error <= 1e-9, f"the moments differ from numpy's by {error}"


def time_fairspan(
    X: torch.Tensor, labels: torch.Tensor, block_entries: int | None
) -> FairSpanTimes:
    """Time one pass over the rows, and a fit from its moments.

    `block_entries` is the number of entries of a block of rows; None for the default.
    """
    device = X.device
    rows: Any = open_group_rows(X, labels)
    if block_entries is not None:
        rows = replace(rows, block_entries=block_entries)
    seconds = median_seconds_on_device(lambda: compute_group_moments(rows), device)
    moments = compute_group_moments(rows)
    model = FairPCA(min(10, X.shape[1]))
    fit = median_seconds_on_device(lambda: model.fit_moments(moments), device)
    return FairSpanTimes(seconds, fit, model.solution_.gap, model.solution_.status)


def format_times(X: torch.Tensor, speed: DeviceSpeed, times: FairSpanTimes) -> str:
    """Return a table of the times and of their share of the larger lower bound."""
    n, p = X.shape
    n_bytes = X.nbytes
    n_operations = 2 * n * p * p
    bounds = {"bytes moved": n_bytes / speed.copy, "arithmetic": n_operations / speed.float64}
    binding = max(bounds, key=lambda name: bounds[name])
    lines = [
        ["copy", f"{speed.copy / 1e9:,.0f} GB/s read and written"],
        ["float32 product", f"{speed.float32 / 1e12:.2f} TFLOP/s"],
        ["float64 product", f"{speed.float64 / 1e12:.2f} TFLOP/s"],
        ["moments", f"{times.moments:.4f} s, {n_bytes / times.moments / 1e9:,.1f} GB/s"],
        ["minimax fit from them", f"{times.fit:.4f} s, {times.status}"],
        ["least for bytes moved", f"{bounds['bytes moved']:.4f} s"],
        ["least for arithmetic", f"{bounds['arithmetic']:.4f} s"],
        [
            f"share of the binding limit ({binding})",
            f"{bounds[binding] / times.moments:.0%} of the moments, "
            f"{bounds[binding] / (times.moments + times.fit):.0%} with the fit",
        ],
    ]
    return format_table(["what", "measured"], lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, help="20 million, or 200,000 without a GPU")
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--block-numbers", type=int, help="entries of a block of rows")
    return parser.parse_args()


def measure(effort: Effort) -> SectionContent:
    """Measure 20 million rows on a GPU; one million if quick.

    Raises
    ------
    SkippedError
        There is no GPU.
    """
    if not torch.cuda.is_available():
        raise SkippedError("there is no GPU that PyTorch can use")
    return SectionContent(compare(1_000_000 if effort.quick else 20_000_000), PACKAGES)


def compare(n: int, p: int = 200, k: int = 2, block_entries: int | None = None) -> str:
    """Draw n rows of p features and k groups, check their moments, and time moments and fit."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    X, labels = make_rows_on_device(device, n, p, k)
    check_moments(X, labels)
    with threadpool_limits(1):
        times = time_fairspan(X, labels, block_entries)
        text = format_times(X, measure_device(device), times)
    name = torch.cuda.get_device_name(device) if is_gpu else f"CPU ({platform.machine()})"
    driver = f", CUDA {torch.version.cuda}" if is_gpu else ""
    blocks = f"blocks of {block_entries or 'the default number of'} numbers"
    return f"{name}{driver}: {n:,} x {p} float32, {k} groups; {blocks}\n\n{text}"


def main() -> None:
    """Parse the arguments, measure, and print the table."""
    options = parse_arguments()
    is_gpu = torch.cuda.is_available()
    if not is_gpu:
        print("There is no GPU: these are figures of the CPU, for checking this program only\n")
    n = options.rows or (20_000_000 if is_gpu else 200_000)
    text = compare(n, options.features, options.groups, options.block_numbers)
    print(f"{describe_machine(PACKAGES)}\n\n{text}")


if __name__ == "__main__":
    main()
