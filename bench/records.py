"""What bench/results/ holds of a GPU: the command that makes each file, and the pages that are made of them.

    python bench/records.py list                    # every record, what makes it and about how long that takes
    python bench/records.py run axes load ...       # make them on the machine that is here; all of them by default
    python bench/records.py pages                   # README and docs, from what bench/results/ holds

``run`` puts each record into bench/results/, under the GPU's name (``h200-axes.json.gz``) and in place of an older one,
once its command has ended. What reads a clock runs on the first GPU, one after the other, and sweeps on all; the other
checks run beside it on the second, or after it where there is one GPU or a sweep, also one after the other, since each
takes many processes. What doesn't fit into ``--minutes`` is not begun, and what is cut off stays in out/records, with
the logs: ``--resume`` goes on with a sweep. ``pages --check``
writes nothing and fails if a page would change; figures are not compared.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelzoo.operations import OPERATIONS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"

BACKENDS = ("triton", "gluon", "cutile", "cute", "helion", "cupy", "numba")
"""Those whose kernels run on a GPU."""

EVERY = f"torch,{','.join(BACKENDS)}"
PEERS = "--module bench/peers/peers.py"
LINES = "4096x1024,1823x781,16x262144,16x4096,8192x16384,32x128256,2048x32000,65536x77,8192x64,1x16777216"
OVER_WORDS = "cross_entropy,logsumexp,argmin,sum,cumsum"
EACH = f"--dtype bfloat16 --backend {','.join(BACKENDS)} --rounds 3 --gpus all"
GRADIENTS = "4096x4096,2048x128256,16x262144,4096x1024,1823x781,264x12288,65536x1000,1048576x64,777x50257"
HIDDEN, VOCABULARY = (
    "1x4096,16x4096,256x4096,8192x4096,8192x16384",
    "1x128256,32x128256,256x128256,2048x128256,2048x32000",
)
SOFTMAX = (
    "liger,flaggems,quack,inductor,tilegym --variant auto,eager,compile,library,max_autotune,cutile,cute,tma,chunked"
    " --waive quack/softmax/library"
)
MIN = (
    "flaggems,cub,cudacompute,inductor --variant auto,eager,compile,library,plain,max_autotune"
    " --waive flaggems/min/library,cub/min/plain,cudacompute/min/plain"
)
"""Peers of an operation, variants, and what breaks its contract."""
OTHERS = "liger,flaggems,quack,inductor,tilegym,cub,cudacompute"
FUZZ, FUZZ_ROWS = "--cases 8400 --alike 96 --seed 3 --jobs 12", "--cases 500 --alike 96 --seed 5 --jobs 1"
ROWS = ",".join(op for op in OPERATIONS if op.partition("_")[0] not in ("softmax", "min") and op != "vecdot")
"""Sums, norms, losses, quantisation, and their gradients."""

COURT = "--definitions out/court --solutions out/court"  # where bench/court.py puts them
SETS = " ".join(f"out/sets/{name}" for name in ("sol", "flashinfer-bench", "KernelBench", "gpu-mode"))  # other people's


@dataclass(frozen=True)
class Record:
    """A file of bench/results/ and the command that makes it, in which ``{}`` stands for its path, ``{softmax}`` and
    ``{min}`` for those of the operations' maps, ``{axes}`` and ``{random}`` for theirs."""

    file: str
    """Less the GPU's name before it."""
    command: str
    seconds: int
    """What it took on one H200, about."""
    alone: bool = False
    """It reads a clock, or takes every GPU: nothing else may run on the first one."""
    gpus: int = 1
    ranks: bool = False
    """It takes all GPUs, two at least, and its file says how many (``h200x2-``)."""

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]

    def words(self, gpu: str, path: Path) -> list[str]:
        """The command for that GPU, which writes there. pytest-benchmark writes no compressed file: ``packed`` says
        that this is left."""
        where = str(path.with_suffix("") if self.packed else path)
        made = {op: _path(f"map-{op}.json.gz", gpu) for op in OPERATIONS}
        made |= {name: _path(f"{name}.json.gz", gpu) for name in ("axes", "random")}
        return [word.format(where, **made) for word in shlex.split(self.command)]

    @property
    def spread(self) -> bool:
        """Whether its problems are handed out to all GPUs that there are."""
        return "--gpus all" in self.command

    @property
    def packed(self) -> bool:
        return self.command.startswith("pytest")


def _path(file: str, gpu: str) -> Path:
    """Of a record, from the project's folder."""
    return Path("bench") / "results" / f"{gpu}-{file}"


RECORDS = (
    Record("submit.json.gz", "pytest bench/test_submit.py --benchmark-only -q --benchmark-json {}", 15, alone=True),
    *(
        Record(
            f"{shapes}-{op}.json.gz",
            f"kernelzoo bench --shapes {shapes} --op {op} {PEERS} --backend {EVERY},{others} {how} --gpus all -o {{}}",
            seconds,
            alone=True,
        )
        for op, others, shapes, how, seconds in (  # shapes that models run, in the dtype that these use
            ("softmax", SOFTMAX, "map", "--rounds 5", 700),
            ("min", MIN, "map", "--rounds 5", 600),
            ("softmax", SOFTMAX, "people", "--dtype bfloat16 --rounds 3", 1500),
            ("min", MIN, "people", "--dtype bfloat16 --rounds 3", 1200),
        )
    ),
    *(
        Record(
            f"{name}.json.gz",
            f"kernelzoo bench --shape {shapes} --dtype bfloat16 --op {ops} {PEERS} --backend {EVERY},{OTHERS}"
            " --variant auto,eager,compile,library,default,max_autotune,cutile,cute,tuned"
            f" --waive {waived} --rounds 3 --gpus all -o {{}}",
            900,
            alone=True,
        )
        for name, shapes, ops, waived in (  # what each is run over by those who train or serve a language model
            (
                *("hidden", HIDDEN, "rms_norm,add_rms_norm,layer_norm,quantize_rows,sum,cumsum"),
                "flaggems/quantize_rows/library,tilegym/quantize_rows/library",
            ),
            (
                *("vocabulary", VOCABULARY, OVER_WORDS),
                "cub/argmin/library,flaggems/argmin/library,liger/cross_entropy/*,quack/cross_entropy/library"
                ",flaggems/cross_entropy/library,tilegym/cross_entropy/library",
            ),
        )
    ),
    Record(
        "gradients.json.gz",
        f"kernelzoo bench --shape {GRADIENTS} --op softmax_backward,min_backward {PEERS}"
        f" --backend {EVERY},liger,quack --variant auto,eager,compile,library"
        " --waive quack/softmax_backward/library --rounds 5 --gpus all -o {}",
        300,
        alone=True,
    ),
    Record(
        "axes.json.gz",
        f"kernelzoo bench --shapes axes --backend {EVERY} --variant auto,compile --rounds 7 --gpus all -o {{}}",
        60,
        alone=True,
    ),
    Record(
        "random.json.gz",
        "kernelzoo bench --shapes random:60 --seed 1 --op softmax,min --backend torch,triton,cupy,numba"
        " --variant auto,eager --rounds 5 --gpus all -o {}",
        600,
        alone=True,
    ),
    Record(
        "calls.json.gz",
        f"kernelzoo bench --clock call --shapes axes --op softmax,min --backend {EVERY} --variant auto,eager"
        " --rounds 5 --gpus all -o {}",
        120,
        alone=True,
    ),
    *(
        Record(
            f"forms-{name}.json.gz",
            f"kernelzoo bench {problems} --backend {','.join(BACKENDS)} --rounds 3 --gpus all -o {{}}",
            seconds,
            alone=True,
        )
        for name, problems, seconds in (  # every form by its name
            ("softmax", "--shapes map --op softmax", 1500),
            ("min", "--shapes map --op min", 1200),
            ("gradients", f"--shape {GRADIENTS} --op softmax_backward,min_backward", 500),
        )
    ),
    *(
        Record(f"lines-{name}.json.gz", f"kernelzoo bench {problems} {EACH} -o {{}}", seconds, alone=True)
        for name, problems, seconds in (  # every form by its name, on some of the shapes that people run
            ("rows", f"--shape {LINES} --op softmax,min", 460),
            ("columns", "--shape 8192x8192 --dim 0 --op softmax,min", 60),
            ("vocabulary", f"--shape {VOCABULARY} --op {OVER_WORDS} --variant rows,split", 330),
        )
    ),
    Record(
        "sweep.json.gz",
        "kernelzoo bench --shapes sweep --op softmax --dtype float32 --variant auto,eager,naive --rounds 9 -o {}",
        250,
        alone=True,
    ),
    Record(
        "dtypes.json.gz",
        "kernelzoo bench --shape 1048576x64,65536x1000,8192x8192,3001x5003,777x50257,16x262144 --dtype float16,float64"
        " --variant auto,eager --rounds 7 -o {}",
        60,
        alone=True,
    ),
    *(
        Record(f"first-call-{name}.json", f"kernelzoo bench --first-call --backend {name} -o {{}}", 100, alone=True)
        for name in BACKENDS
    ),
    *(
        Record(
            f"{name}.json.gz",
            "kernelzoo bench --shapes quick --op softmax,min --variant auto,eager --energy --rounds 3 -o {}",
            *(90, True),
        )
        for name in ("energy", "energy-again")  # bench/energy.py tells whether the two agree
    ),
    Record("verdicts.json", f"kernelzoo compare {COURT} --gpus all -o {{}}", 1100, alone=True),
    Record("hints.json", "python bench/hints.py -o {}", 60, alone=True),
    Record("training.json", "python bench/training.py -o {}", 30, alone=True),
    Record("aa.json", "python bench/aa.py --pairs 20 -o {}", 420, alone=True),
    Record("repeat.json", "python bench/repeat_peers.py -o {}", 60, alone=True),
    Record("helion-tuning.json", "python bench/helion_tuning.py -o {}", 900, alone=True),
    Record("references.json", f"python bench/references.py {SETS} -o {{}}", 900, alone=True),
    Record("profile.json", "python bench/counters.py {softmax} {min} -o {}", 150, alone=True),
    Record(
        "profile-axes.json",
        "python bench/counters.py {axes} {random} --backends triton,cupy,numba --below 0.6 --bytes 2000000 -o {}",
        150,
        alone=True,
    ),
    *(Record(f"fuzz-{backend}.json", f"kernelzoo fuzz '{backend}/*' {FUZZ} -o {{}}", 170) for backend in BACKENDS),
    *(
        Record(f"fuzz-rows-{name}.json", f"kernelzoo fuzz '{name}/*' --op {ROWS} {FUZZ_ROWS} -o {{}}", 250)
        for name in BACKENDS
    ),
    Record("sanitizer.json", "python tests/sanitizer.py -o {}", 540),
    Record(
        "accuracy.json",
        "kernelzoo accuracy 'cupy/*' 'numba/*' 'torch/*' --values 1e8 --seed 1 --jobs 16 -o {}",
        200,
    ),
    Record("accuracy-triton.json", "kernelzoo accuracy 'triton/*' 'gluon/*' --values 1e8 --seed 1 --jobs 16 -o {}", 80),
    Record("load.json", "python tests/load/run.py --section threads,streams,graphs,modes,processes -o {}", 140),
    Record("devices.json", "python tests/load/run.py --section devices -o {}", 60, alone=True, gpus=2),
    Record("distributed.json.gz", "python bench/distributed.py -o {}", 300, alone=True, gpus=2, ranks=True),
    Record("ranks.json", "python bench/ranked_checks.py -o {}", 160, alone=True, gpus=2, ranks=True),
    Record("scaling.json", "python bench/scaling.py -o {}", 90, alone=True, gpus=2, ranks=True),
    Record("memory.json", "python tests/load/run.py --section memory,full -o {}", 120),
    Record("sizes-softmax.json", "python tests/load/run.py --section sizes --op softmax -o {}", 110),
    Record("sizes-min.json", "python tests/load/run.py --section sizes --op min -o {}", 230),
)


class Lane(threading.Thread):
    """Makes records one after the other, until the deadline."""

    def __init__(
        self, records: Sequence[Record], gpu: str, deadline: float, after: threading.Thread | None, resume: bool
    ) -> None:
        super().__init__()
        self.records, self.gpu, self.deadline, self.after, self.resume = records, gpu, deadline, after, resume
        self.outcomes: list[str] = []

    def run(self) -> None:
        if self.after is not None:
            self.after.join()
        for record in self.records:
            began = time.monotonic()
            left = self.deadline - began
            takes = record.seconds / (len(_gpus()) if record.spread else 1)
            begin = left >= takes / 2 or (self.resume and record.spread)
            outcome = self.make(record, left) if begin else "not begun: too little time is left"
            self.outcomes.append(outcome)
            print(f"{record.name}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)

    def make(self, record: Record, seconds: float) -> str:
        """Run its command for so long at most; what became of it, in words."""
        log = Path("out") / "records" / f"{record.name}.log"
        (ROOT / log.parent).mkdir(parents=True, exist_ok=True)
        path = _path(record.file, _name(self.gpu) + f"x{len(_gpus())}" * record.ranks)
        aside = log.parent / path.name  # most commands would not write over an older record; what they write names it
        made = ROOT / aside
        plain = made.with_suffix("")
        resumed = self.resume and record.spread and made.exists()
        for left in () if resumed else (made, plain):
            left.unlink(missing_ok=True)
        program, *arguments = [*record.words(_name(self.gpu), aside), *["--resume"] * resumed]
        command = [sys.executable, *([] if program == "python" else ["-m", program]), *arguments]
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(_gpus()) if record.gpus > 1 or record.spread else self.gpu}
        with (ROOT / log).open("wb") as output:
            env = os.environ | gpus
            process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                status = process.wait(seconds)
                outcome = "done" if status == 0 else f"exit status {status}, see {log}"
            except subprocess.TimeoutExpired:
                return _stopped(process)
        if record.packed and plain.exists():
            made.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
            plain.unlink()
        if not made.exists():
            return outcome if status else f"wrote nothing, see {log}"
        if status >= 0:  # else a signal ended it, and what it has is no more than a part
            made.replace(ROOT / path)
        return outcome


def _stopped(process: subprocess.Popen[bytes]) -> str:
    """Ask a command to end, as Ctrl-C does, and make it end if it doesn't."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(15)
        return "cut off at the end of the time"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "killed at the end of the time"


def _gpus() -> list[str]:
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


@functools.cache
def _name(gpu: str) -> str:
    """What files call a GPU: the model in its name, as in "NVIDIA H200"."""
    asked = "import torch; print(torch.cuda.get_device_name())"
    visible = os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
    name = subprocess.run([sys.executable, "-c", asked], env=visible, capture_output=True, text=True, check=True).stdout
    model = re.search(r"\b[A-Z]+\d+\w*", name)
    return (model[0] if model else name.strip().replace(" ", "-")).lower()


def run(names: Sequence[str], minutes: float, resume: bool = False) -> int:
    """Make these records, or all; 0 if each is done. ``resume``: go on with what was cut off, where that can be."""
    gpus = _gpus()
    if not gpus:
        print("no GPU to run on", file=sys.stderr)
        return 2
    named = [record for record in RECORDS if not names or record.name in names]
    wanted = [record for record in named if record.gpus <= len(gpus)]
    for record in named:
        if record not in wanted:
            print(f"{record.name}: not begun: it takes {record.gpus} GPUs")
    # Else a shell's background job would pass on to its commands that they ignore what asks them to end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deadline = time.monotonic() + minutes * 60
    quiet = Lane([record for record in wanted if record.alone], gpus[0], deadline, None, resume)
    after = quiet if len(gpus) == 1 or any(record.spread for record in quiet.records) else None
    checks = Lane([record for record in wanted if not record.alone], gpus[-1], deadline, after, resume)
    for lane in (quiet, checks):
        lane.start()
    for lane in (quiet, checks):
        lane.join()
    left_out = bool(names) and len(wanted) < len(named)  # all that one GPU can do is all, unless more was asked for
    return int(left_out or any(outcome != "done" for lane in (quiet, checks) for outcome in lane.outcomes))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="The committed results of a GPU, and the pages made of them; see the source."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say what there is")
    runs = commands.add_parser("run", help="make records on the GPUs that are here")
    runs.add_argument("names", nargs="*", metavar="RECORD", help="by default all")
    runs.add_argument("--minutes", type=float, default=60, help="all must end by then (default: %(default)s)")
    runs.add_argument("--resume", action="store_true", help="go on with sweeps that were cut off, left in out/records")
    made = commands.add_parser("pages", help="make README and docs from the results")
    made.add_argument("--check", action="store_true", help="write nothing, but fail if a page would change")
    options = parser.parse_args(argv)
    if options.command == "pages":
        status: int = runpy.run_path(str(Path(__file__).with_name("pages.py")))["pages"](options.check)
        return status
    if options.command == "run":
        unknown = set(options.names) - {record.name for record in RECORDS}
        if unknown:
            runs.error(f"no record {', '.join(sorted(unknown))}; known: {', '.join(record.name for record in RECORDS)}")
        return run(options.names, options.minutes, options.resume)
    for record in RECORDS:
        print(f"{record.name:18} {record.seconds:4} s  {shlex.join(record.words('GPU', _path(record.file, 'GPU')))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
