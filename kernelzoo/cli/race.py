"""``kernelzoo race``: everything that runs on this machine, over shapes that people run, as a file and a picture."""

from pathlib import Path
from typing import Annotated, Any

from kernelzoo import registry
from kernelzoo.cli import bench, listing, measuring, options, output
from kernelzoo.report import standing
from kernelzoo.report.reading import load

SHAPES = {
    "cuda": ["256x4096,8192x4096,32x128256,32768x4096,8192x64,8x1048576"],
    "cpu": ["16x4096,256x4096,32x32000,8192x64"],
}
"""Some of ``--shapes people``: a decode batch, a prefill, a vocabulary, attention scores, router logits, long rows."""
DTYPE = {"cuda": "bfloat16", "cpu": "float32"}

SECONDS = 300.0
"""The time after which no further shape is measured."""

To = Annotated[Path, options.option("--output -o", "FILE.json", "The results file; the picture stands beside it.")]


def race(
    *, device: options.Device = "", to: To = Path("race.json"), resume: bench.Resume = False, json: options.Json = False
) -> int:
    """Race what runs on this machine, in about five minutes: softmax and minimum over shapes that people run.

    The file has every sample, the device and the versions. The picture beside it, FILE.svg, has a bar for each
    implementation: its speed relative to torch, as a geometric mean. It needs Matplotlib. No shape begins after
    five minutes; --resume measures those left. kernelzoo merge A.json B.json -o cards.html lays the files of several
    cards side by side.

    Exit status: 0; 1 if a row is wrong or failed; 2 if nothing could be measured; 130 after Ctrl-C.
    """
    here = listing.probe_backends(registry.backends())
    kind = device.partition(":")[0] or ("cuda" if any("cuda" in found.devices for found in here.values()) else "cpu")
    names = [name for name, found in here.items() if kind in found.devices]
    with measuring.skip_problems_after(SECONDS):
        status = bench.bench(
            shape=SHAPES[kind],
            axes=[],
            workload=[],
            op=["softmax,min"],
            dtype=[DTYPE[kind]],
            backend=names,
            variant=["auto,eager"],
            module=[],
            device=device or kind,
            rounds=6,
            waive=[],
            to=to,
            resume=resume,
            json=json,
        )
    if status in (0, 1):
        _present_speeds(to, output.console(errors=json))
    return status


def _present_speeds(results: Path, console: Any) -> None:
    """Print the speed of each implementation, and draw the picture if Matplotlib is installed."""
    found, picture = load([results]), results.with_suffix(".svg")
    for line in standing.speed_lines(found):
        output.print_note(console, line)
    try:
        from kernelzoo.report import figure
    except ImportError:
        output.console(errors=True).print("no picture: Matplotlib draws it; pip install 'kernelzoo[report]'")
        return
    figure.save(figure.draw_speeds(found.groups[0]), picture.with_suffix(""))
    output.print_note(console, f"a picture of it: {picture}")
