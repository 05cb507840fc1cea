"""For ``compare --against-commit``, an older commit is checked out in a temporary folder and measured."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernelzoo import children
from kernelzoo.cli import output
from kernelzoo.cli.comparing import ComparisonRequest
from kernelzoo.cli.measuring import MeasuringOptions
from kernelzoo.cli.options import OptionError
from kernelzoo.definitions.tolerance import VARIABLE
from kernelzoo.interrupts import delay_interrupt
from kernelzoo.measure import record, worker_process

_HOME = Path(children.__file__).resolve().parent


@dataclass
class Commit:
    """A commit that is checked out in a temporary folder."""

    name: str
    folder: Path
    home: Path
    """The folder that contains the measuring kernelzoo. It goes first on Python's path."""
    modules: Sequence[Path]

    def measure(self, label: str, query: ComparisonRequest, opts: MeasuringOptions) -> Path:
        """Measure the implementations at the commit. Returns the results file, ``label``.json. Raises OptionError."""
        to, none = self.folder / f"{label}.json", subprocess.DEVNULL
        one = {"dim": query.dim, "baseline": query.baseline, "device": query.device, "patience": query.patience}
        one |= {"rounds": opts.rounds, "cache": opts.cache, "clock": opts.timed, "output": to}
        several = {"op": query.ops, "shape": query.shapes, "axes": query.axes, "workload": query.workloads}
        several |= {"dtype": query.dtypes, "waive": query.waive, "module": self.modules}
        flags = {"energy": opts.energy, "cross-check": opts.cross_check, "no-cross-check": not opts.cross_check}
        flags["their-tolerance"] = os.environ.get(VARIABLE) == "1"
        words = [f"--{name}={value}" for name, value in one.items() if value != ""]
        words += [f"--{name}={value}" for name, values in several.items() for value in values]
        words += [f"--{name}" for name, given in flags.items() if given]
        command = [*worker_process.command("kernelzoo"), "compare", *query.names, *words]
        env = children.child_env()
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(self.home), env["PYTHONPATH"])))
        output.console(errors=True).print(f"measuring {self.name}, {label}")
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            child = subprocess.Popen(command, env=env, stdin=none, stdout=none, stderr=said, start_new_session=True)
            try:
                status = child.wait()
            except BaseException:
                child.terminate()  # it ends as after Ctrl-C
                child.wait()
                raise
            said.seek(0)
            last = said.read().strip().rpartition("\n")[2].removeprefix("error: ")
        if status not in (0, 1, 2) or not to.exists():
            raise OptionError(f"{self.name} could not be measured: {last or f'status {status}'}")
        return to


@contextmanager
def checkout(revision: str, modules: Sequence[Path]) -> Iterator[Commit]:
    """A context in which the commit ``revision`` is checked out in a temporary worktree.

    If ``modules`` are given, their repository is checked out, and the modules are measured as they were then. Otherwise
    kernelzoo itself is checked out and measured. Raises OptionError if git fails, or if the commit lacks these files.
    """
    if not modules and not record.commit()["id"]:
        raise OptionError("this kernelzoo is no git checkout; name a --module that is in a repository")
    here = [module.resolve() for module in modules] or [_HOME]
    roots = {_git(path.parent, "rev-parse", "--show-toplevel") for path in here}
    if len(roots) > 1:
        raise OptionError(f"--against-commit needs one repository; the modules are in {', '.join(sorted(roots))}")
    root = Path(*roots)
    if _git(root, "status", "--porcelain", "--", *map(str, here)):
        output.console(errors=True).print("what lies here has uncommitted changes, which are measured too")
    with tempfile.TemporaryDirectory(prefix="kernelzoo-") as folder:
        tree = Path(folder).resolve() / "tree"
        try:
            with delay_interrupt():
                add = "-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--"
                _git(root, *add, str(tree), revision)
            name = f"{revision} ({_git(tree, 'rev-parse', '--short', 'HEAD')})"
            then = [tree / path.relative_to(root) for path in here]
            for path in then:
                if not path.exists():
                    raise OptionError(f"{path.relative_to(tree)} did not exist at {name}")
            yield Commit(name, tree.parent, (_HOME if modules else then[0]).parent, then if modules else ())
        finally:
            with delay_interrupt(), suppress(OSError, subprocess.SubprocessError):
                record.git(root, "worktree", "remove", "--force", "--force", str(tree))


def _git(folder: Path, *words: str) -> str:
    """Run git in a folder and return its output. If git fails, raises OptionError with git's message."""
    try:
        return record.git(folder, *words, timeout=600)
    except subprocess.SubprocessError as error:
        reason = str(getattr(error, "stderr", "")).partition("fatal: ")[2].partition("\n")[0]
        raise OptionError(f"git in {folder}: {reason or error}") from None
