"""Ranks for tests: processes of a group on gloo, which run functions of ``rank_work`` by name and answer."""

import multiprocessing
import os
import sys
import traceback
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

STARTED, ANSWERED = 120, 120
"""Seconds within which processes must have started, and answer."""


def serve(rank: int, count: int, file: str, timeout: float, pipe: Connection) -> None:
    """What a process does: it joins the group, and answers until it is told to end."""
    os.environ["NUMBA_NUM_THREADS"] = "1"
    sys.path.insert(0, str(Path(__file__).parent))
    import rank_work
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    seconds = timedelta(seconds=timeout)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=count, timeout=seconds)
    pipe.send(("ready", None))
    while (asked := pipe.recv()) is not None:
        name, arguments = asked
        try:
            pipe.send(("done", getattr(rank_work, name)(rank, *arguments)))
        except BaseException as error:
            pipe.send(("raised", (type(error).__name__, str(error), traceback.format_exc())))
    with suppress(Exception):
        dist.destroy_process_group()


class Ranks:
    """A group of so many ranks, whose exchanges wait for so many seconds at the most."""

    def __init__(self, count: int, folder: Path, timeout: float = 60) -> None:
        self.count = count
        # Forked from a process that has imported what all need, which takes each of them seconds, and has done no more.
        fork = multiprocessing.get_context("forkserver")
        fork.set_forkserver_preload(["torch.distributed.tensor", "torch._dynamo", "kernelzoo.distributed"])
        file = str(folder / "rendezvous")
        pipes = [fork.Pipe() for _ in range(count)]
        self._pipes = [ours for ours, _ in pipes]
        self._processes = [
            fork.Process(target=serve, args=(rank, count, file, timeout, theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self._processes:
            process.start()
        for pipe in self._pipes:
            assert pipe.poll(STARTED), "a rank has not started"
            assert pipe.recv()[0] == "ready"

    def each(self, name: str, *arguments: Any, ranks: tuple[int, ...] | None = None) -> list[Any]:
        """The ranks' answers to a function of ``rank_work``: ("done", result) or ("raised", (type, words, trace))."""
        asked = range(self.count) if ranks is None else ranks
        for rank in asked:
            self._pipes[rank].send((name, arguments))
        answers = []
        for rank in asked:
            assert self._pipes[rank].poll(ANSWERED), f"rank {rank} hangs"
            answers.append(self._pipes[rank].recv())
        return answers

    def run(self, name: str, *arguments: Any) -> list[Any]:
        """The results of all ranks, none of which may raise."""
        answers = self.each(name, *arguments)
        for rank, (how, what) in enumerate(answers):
            assert how == "done", f"rank {rank}: {what[-1]}"
        return [what for _, what in answers]

    def close(self) -> None:
        """End all processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            with suppress(OSError):
                pipe.send(None)
            process.join(5)
            if process.is_alive():
                process.kill()
