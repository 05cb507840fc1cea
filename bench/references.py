"""Does each reference of other people's problem sets pass its own definition?

``python bench/references.py FOLDER ... -o FILE.json`` loads every definition, KernelBench problem and gpu-mode folder
below the folders, each in a process of its own, and runs its reference as a kernel on the cases that it means. That is
what ``kernelzoo verify`` does, without the cases beyond the definition. With a GPU, all GPUs are used, and processes
share the memory of one evenly: first six, then two, then one, for what was not decided before. A file that is there is
continued.

``--record FILE.md`` writes a table of a file's verdicts between a page's markers, and runs nothing.

The exit status is 1 if a reference that loads is wrong by its own definition.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from other_sets import LOADS, files, reason

from kernelzoo.files import write_atomically
from kernelzoo.report import writing

Row = dict[str, Any]

PASSES, FAILS, UNDECIDABLE, REFUSED, ROOM, LATE = "passes", "fails", "undecidable", "refused", "no room", "no time"
DECIDED = (PASSES, UNDECIDABLE, REFUSED)
KINDS = ("definition", "problem", "folder")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("-o", dest="to", type=Path, required=True, metavar="FILE.json")
    parser.add_argument("--seconds", type=float, default=40.0, help="for one file, its loading included")
    parser.add_argument("--jobs", type=int, default=0, help="processes at once on each GPU, in place of these")
    parser.add_argument("--again", action="store_true", help="judge again what was undecidable")
    parser.add_argument("--most", type=int, default=0, metavar="ELEMENTS", help="largest tensor; by default no limit")
    parser.add_argument("--record", type=Path, metavar="FILE.md", help="write what -o holds into a page")
    given = parser.parse_args()
    if given.record:
        table = recorded(json.loads(given.to.read_text(encoding="utf-8")))
        page = given.record.read_text(encoding="utf-8")
        given.record.write_text(writing.insert(page, {"references": table}, str(given.record))[0], encoding="utf-8")
        return 0
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")  # large tensors need all of the memory
    import torch

    from kernelzoo.measure.environment import device_name, versions

    gpus = torch.cuda.device_count()
    places = [f"cuda:{number}" for number in range(gpus)] or ["cpu"]
    document = json.loads(given.to.read_text(encoding="utf-8")) if given.to.exists() else {"references": []}
    document |= {"device": device_name(places[0]), "versions": versions(places[0])}
    rows: list[Row] = document["references"]
    found = [(folder, kind, path) for folder in given.folders for kind in KINDS for path in files(folder, kind)]
    decided = [verdict for verdict in DECIDED if not (given.again and verdict == UNDECIDABLE)]
    known = {(row["set"], row["file"]) for row in rows if row["verdict"] in decided}
    left = [one for one in found if (one[0].name, str(one[2].relative_to(one[0]))) not in known]
    for jobs in [given.jobs] if given.jobs else (6, 2, 1) if gpus else (1,):
        judged = []
        with ThreadPoolExecutor(jobs * len(places)) as pool:
            where = itertools.cycle(places)
            tasks = [pool.submit(apart, one, next(where), given.seconds, given.most, jobs) for one in left]
            for number, (one, task) in enumerate(zip(left, tasks, strict=True), 1):
                judged.append((one, made := task.result()))
                rows[:] = [row for row in rows if (row["set"], row["file"]) != (made["set"], made["file"])] + [made]
                print(f"[{number}/{len(left)}] {told(made)}", flush=True)
                write_atomically(given.to, f"{json.dumps(document, indent=1)}\n".encode())
        left = [one for one, row in judged if row["verdict"] not in DECIDED]
    for folder in dict.fromkeys(row["set"] for row in rows):
        print(f"{folder}:", counted([row for row in rows if row["set"] == folder]))
    return int(any(row["verdict"] == FAILS for row in rows))


def recorded(document: Row) -> str:
    """The verdicts of a file as Markdown: how many of each in each set, and why references don't pass."""
    rows: list[Row] = document["references"]
    verdicts = [each for each in (PASSES, FAILS, UNDECIDABLE, REFUSED, ROOM, LATE) if any(of(rows, verdict=each))]
    lines = [f"On {document['device']}, torch {document['versions']['torch']}.", ""]
    lines += [f"| set | files | load | {' | '.join(verdicts)} |", f"|:--|--:|--:|{'--:|' * len(verdicts)}"]
    for name in dict.fromkeys(row["set"] for row in rows):
        counts = [str(len(of(rows, set=name, verdict=verdict))) for verdict in verdicts]
        files = len(of(rows, set=name))
        loaded = files - len(of(rows, set=name, verdict=REFUSED))
        lines.append(f"| {name} | {files} | {loaded} | {' | '.join(counts)} |")
    for verdict in [each for each in verdicts[1:] if each not in (ROOM, LATE)]:
        why = Counter((row["set"], plain(row["why"])) for row in of(rows, verdict=verdict))
        lines += ["", f"**{verdict.capitalize()}.**", ""]
        lines += [f"- {name}, {count}: {words}" for (name, words), count in why.most_common()]
    return "\n".join(lines)


def of(rows: Sequence[Row], **fields: str) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in fields.items())]


def plain(why: str) -> str:
    """A reason on one line, without names and places of its own."""
    if " is wrong: " in why:
        why = f"{why.partition(' is wrong: ')[0].rpartition(': ')[2]} is wrong"
    return why.partition(";")[0].partition("\n")[0].replace("|", "\\|")[:160] or "no reason"


def counted(rows: Sequence[Row]) -> str:
    """How many files have each verdict."""
    count = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{count[verdict]} {verdict}" for verdict in count)


def told(row: Row) -> str:
    """A file's verdict in one line."""
    return f"{row['set']}/{row['file']}: {row['verdict']}{': ' if row['why'] else ''}{row['why']}"


def apart(one: tuple[Path, str, Path], device: str, seconds: float, most: int, jobs: int) -> Row:
    """What a process of its own finds of a file; it is ended when its time is over."""
    folder, kind, path = one
    row = {"set": folder.name, "file": str(path.relative_to(folder)), "kind": kind, "verdict": LATE, "why": ""}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "kernelzoo.check.verifying"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=judge, args=(theirs, kind, path, device, seconds, most, jobs), daemon=True)
    begin = time.monotonic()
    process.start()
    theirs.close()
    latest: Row = {"verdict": LATE, "why": "while it was loaded"}
    try:
        while ours.poll(max(0.0, begin + seconds + 15 - time.monotonic())):
            latest = ours.recv()
    except EOFError:
        process.join(5)
        if process.exitcode:  # by SIGKILL, most often since memory ran out
            killed = process.exitcode == -signal.SIGKILL
            latest = {"verdict": ROOM if killed else FAILS, "why": f"its process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return {**row, **latest, "seconds": round(time.monotonic() - begin, 1)}


def judge(to: Connection, kind: str, path: Path, device: str, seconds: float, most: int, jobs: int) -> None:
    """Load a file and run its references; what is known so far is sent after each case."""
    import torch

    from kernelzoo.check import verifying
    from kernelzoo.definitions.files import DefinitionError
    from kernelzoo.registry import implementations

    end, at = time.monotonic() + seconds, torch.device(device)
    if at.type == "cuda":
        torch.cuda.set_device(at)
        torch.cuda.set_per_process_memory_fraction(0.95 / jobs)
    try:
        loaded = LOADS[kind](path)
    except DefinitionError as error:
        verdict = ROOM if "OutOfMemoryError" in str(error) else REFUSED
        to.send({"verdict": verdict, "why": reason(str(error), path)})
        return
    ops = loaded if isinstance(loaded, tuple) else (loaded,)
    named = [each for op in ops for each in implementations("reference", op.name)]
    work = [(each, check) for each in named for check in verifying.checks_of(each, at, whole=True) if not check.beyond]
    count, words = Counter[str](), dict.fromkeys((FAILS, UNDECIDABLE, ROOM), "")
    for place, (implementation, check) in enumerate(work):
        if time.monotonic() > end:
            break
        to.send(state(count, words, len(work) - place, check.name))
        within = not most or next(each.elements for each in cases_of(implementation) if each.name == check.name) <= most
        again = verifying.Check(check.name, check.dtype, check.run, not within, check.empty)
        found = verifying.verify(implementation, [again], at, whole=True, progress=lambda name, known: None)
        full = [one for one in found.findings if "OutOfMemoryError" in one.reason]
        wrong = [f"{check.name}: {one.reason}" for one in found.findings if one not in full]
        wrong += [f"{name}: {why}" for name, why in found.at_fault.items()]
        count["passed"] += found.passed
        count[FAILS] += len(wrong)
        count[UNDECIDABLE] += len(found.undecidable)
        count[ROOM] += found.no_room + again.too_large + len(full)
        words[FAILS] = words[FAILS] or "".join(wrong[:1])
        words[UNDECIDABLE] = words[UNDECIDABLE] or "".join([*found.undecidable.values()][:1])
        if at.type == "cuda":
            torch.cuda.empty_cache()
    to.send(state(count, words, len(work) - sum(count.values()), ""))


def cases_of(implementation: Any) -> Any:
    from kernelzoo.check.cases import cases

    return cases(implementation.op)


def state(count: Counter[str], words: dict[str, str], left: int, name: str) -> Row:
    """The verdict by what was found so far. One right case and no wrong one pass."""
    verdict = FAILS if count[FAILS] else PASSES if count["passed"] else UNDECIDABLE if count[UNDECIDABLE] else ""
    verdict = verdict or (ROOM if count[ROOM] else LATE)
    numbers = {"passed": count["passed"], "undecidable": count[UNDECIDABLE], "no_room": count[ROOM], "left": left}
    return {"verdict": verdict, "why": words.get(verdict, "") or (f"in {name}" if verdict == LATE else ""), **numbers}


if __name__ == "__main__":
    sys.exit(main())
