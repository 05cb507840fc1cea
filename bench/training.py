"""Whole training steps with softmax in them, on a GPU: ``python bench/training.py -o FILE.json``.

Each step, forward and backward, runs with torch.softmax and with each backend's, eager and under torch.compile:

    attention     softmax(q @ k.mT) @ v of 8 sequences of 1024 tokens, 16 heads of 64 channels, bfloat16
    vocabulary    the mean negative logarithm of a softmax over 128256 words, of 1024 tokens of 1024 channels, bfloat16

The clock is the device's, between two events around some steps, one way after the other in shuffled turns. Before that,
the gradients must be those of torch.softmax as far as bfloat16 goes.
"""

import argparse
import datetime
import functools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import kernelzoo
from kernelzoo import measure
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.files import write_atomically
from kernelzoo.measure.statistics import ratio_interval

FORMAT = "kernelzoo-training/1"
STEPS = 5
"""In one sample."""
LANGUAGES = ("torch", "triton", "gluon", "cutile", "cute", "helion", "cupy", "numba")
HOWS = ("eager", "compiled")

Softmax = Callable[[torch.Tensor, int], torch.Tensor]
Step = Callable[[], torch.Tensor]


def attention(softmax: Softmax, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (softmax(q @ k.mT, -1) @ v).square().mean()


def vocabulary(softmax: Softmax, x: torch.Tensor, weight: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    return -softmax(x @ weight, -1).gather(-1, word).log().mean()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16).div_(shape[-1] ** 0.25).requires_grad_()


MODELS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "attention": (attention, lambda: tuple(drawn(8, 16, 1024, 64) for _ in range(3))),
    "vocabulary": (
        vocabulary,
        lambda: (drawn(1024, 1024), drawn(1024, 128256), torch.randint(128256, (1024, 1), device="cuda")),
    ),
}


def step_of(model: str, language: str, how: str, inputs: tuple[torch.Tensor, ...]) -> Step:
    """One step: all gradients, of which it returns the first."""
    softmax = torch.softmax if language == "torch" else kernelzoo.get(language).softmax
    loss: Callable[..., torch.Tensor] = functools.partial(MODELS[model][0], softmax)
    if how == "compiled":
        loss = torch.compile(loss, fullgraph=True)
    wanted = [x for x in inputs if x.requires_grad]
    return lambda: torch.autograd.grad(loss(*inputs), wanted)[0]


def experiment(model: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each way of computing a step."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = MODELS[model][1]()
    steps: dict[tuple[str, str], Step] = {}
    for language in LANGUAGES:
        for how in HOWS:
            try:
                steps[language, how] = step_of(model, language, how, inputs)
            except BackendUnavailableError as error:
                print(f"{language} is left out: {error}", file=sys.stderr)
    right = steps["torch", "eager"]()
    for step in steps.values():
        torch.testing.assert_close(step(), right, rtol=0.05, atol=float(right.abs().max()) / 50)
    samples = race(steps, rounds)
    rows = []
    for (language, how), seconds in samples.items():
        row: dict[str, Any] = {"step": model, "softmax": language, "how": how}
        row["ms"] = f"{sorted(seconds)[rounds // 2] * 1e3:.3f}"
        ratio = ratio_interval(seconds, samples["torch", how], paired=True)
        row["ratio to torch.softmax"] = "1" if language == "torch" else f"{ratio.mid:.3f}"
        row["95 % interval"] = "" if language == "torch" else f"{ratio.low:.3f} to {ratio.high:.3f}"
        rows.append(row)
    return rows


def race(steps: dict[tuple[str, str], Step], rounds: int) -> dict[tuple[str, str], list[float]]:
    """Seconds of a step of each way in each round, in turns of shuffled order."""
    order = list(steps)
    samples: dict[tuple[str, str], list[float]] = {way: [] for way in order}
    for _ in range(rounds):
        random.shuffle(order)
        for way in order:
            steps[way]()  # brings the allocator to where this way has it
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            began.record()
            for _ in range(STEPS):
                steps[way]()
            ended.record()
            ended.synchronize()
            samples[way].append(began.elapsed_time(ended) / STEPS / 1000)
    return samples


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Training steps with torch.softmax and with each backend's.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="what was found")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.rounds < 6:
        parser.error(f"--rounds {options.rounds} can't tell anything; an interval needs 6 at least")
    if not torch.cuda.is_available():
        parser.error("there is no GPU, and a host would take minutes for a step")
    started, began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.monotonic()
    rows = [row for model in MODELS for row in experiment(model, options.rounds)]
    document: dict[str, Any] = {
        "format": FORMAT,
        "command": ["python", *(sys.argv if argv is None else ["bench/training.py", *argv])],
        "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "rows": rows,
    }
    for row in rows:
        print(*row.values(), sep=" | ")
    write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
