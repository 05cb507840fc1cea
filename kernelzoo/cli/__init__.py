"""The command line ``kernelzoo``. Each command is a function that returns the exit status.

The function's parameters are the command's options. Torch is imported only when a command runs, not for ``--help``.
"""

import json
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import kernelzoo
from kernelzoo import children
from kernelzoo.cli import (
    accuracy,
    bench,
    compare,
    doctor,
    fuzz,
    history,
    inspection,
    listing,
    race,
    reporting,
    show,
    tune,
    verify,
)
from kernelzoo.errors import KernelZooError
from kernelzoo.files import printable

WRONG, UNUSABLE, INTERRUPTED = 1, 2, 130
"""Exit statuses other than 0: a wrong or slower result; bad usage or something missing here; an interruption."""

_HYPHEN = "\u2011"
"""The non-breaking hyphen."""


class _PlainHelp:
    """A mixin for commands, whose help breaks no line at a hyphen and shows no Python types."""

    def get_help(self, ctx: Any) -> str:
        return str(super().get_help(ctx)).replace(_HYPHEN, "-")  # type: ignore[misc]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        listed, told = formatter.write_dl, formatter.write_text
        formatter.write_dl = lambda rows: listed(
            [(_wrap(name.partition(" <")[0], formatter.width), words.replace("-", _HYPHEN)) for name, words in rows]
        )
        formatter.write_text = lambda words: told(words.replace("-", _HYPHEN))
        super().format_help(ctx, formatter)  # type: ignore[misc]


def _wrap(names: str, width: int) -> str:
    """Wrap the comma-separated names of an option to the width, without breaking a name."""
    return "\n    ".join(textwrap.wrap(names, width - 6, break_on_hyphens=False))


class _Command(_PlainHelp, TyperCommand):
    pass


class _Group(_PlainHelp, TyperGroup):
    pass


app = typer.Typer(
    name="kernelzoo",
    cls=_Group,
    help=(
        "Compare the same GPU operations in several kernel languages: check them and measure them.\n\n"
        "With --json, which every command takes, standard output is one JSON document and nothing else.\n\n"
        "Exit status: 0 all is well; 1 something is wrong or slower (a finding, a failed row, a regression); "
        "2 bad usage, or something is missing on this machine; 130 interrupted."
    ),
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's tables cut long names
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _handle_global_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> int:
    if version:
        print(f"kernelzoo {kernelzoo.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(UNUSABLE)
    return 0


_COMMANDS: dict[str, Callable[..., int]] = {
    "list": listing.list_implementations,
    "doctor": doctor.doctor,
    "verify": verify.verify,
    "fuzz": fuzz.fuzz,
    "accuracy": accuracy.accuracy,
    "race": race.race,
    "bench": bench.bench,
    "merge": reporting.merge,
    "compare": compare.compare,
    "show": show.show,
    "inspect": inspection.inspect,
    "tune": tune.tune,
    "history": history.history,
    "report": reporting.report,
}


class _InterruptedError(Exception):
    """Ctrl-C ended a command."""


def _add_command(name: str, command: Callable[..., int]) -> None:
    @wraps(command)
    def run(*arguments: Any, **options: Any) -> int:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:  # typer would exit without a message
            raise _InterruptedError from None

    paragraphs = (command.__doc__ or "").split("\n\n")
    words = "\n\n".join(" ".join(part.split()) for part in paragraphs)  # typer would keep line breaks
    app.command(name, cls=_Command, help=words, short_help=words.partition("\n")[0])(run)


for name, command in _COMMANDS.items():
    _add_command(name, command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Print an error on standard error; with --json, print it as JSON too."""
    children.drop_working_directory_from_path()
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a device's name may have characters that the terminal lacks
    with _interrupted_by_signals():
        return _run_command(given)


def _run_command(arguments: list[str]) -> int:
    try:
        status = typer.main.get_command(app).main(arguments, prog_name="kernelzoo", standalone_mode=False)
    except (_InterruptedError, KeyboardInterrupt, typer.Abort):  # the command saved nothing
        return _print_error("interrupted", arguments, INTERRUPTED)
    except KernelZooError as error:
        return _print_error(str(error), arguments)
    except OSError as error:
        return _print_error(f"{error.filename or 'input or output'}: {error.strerror or error}", arguments)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer or click raised it for bad usage
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", None) or _command_name(arguments)
        message = error.format_message().rstrip(".")
        see = f"See {command} --help" if message.endswith("?") else f"see {command} --help"
        return _print_error(f"{message}{' ' if message.endswith('?') else '; '}{see}", arguments)
    return status if isinstance(status, int) else 0


def _command_name(arguments: list[str]) -> str:
    """Return the command that ``arguments`` name, such as ``kernelzoo bench``, for errors that do not name one."""
    commands = {info.name for info in app.registered_commands}
    return " ".join(["kernelzoo", *[word for word in arguments if word in commands][:1]])


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP end a command cleanly, like Ctrl-C."""
    signals = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        if before[number] == signal.SIG_DFL:  # nohup's handler, for example, stays
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_error(words: str, arguments: Sequence[str], status: int = UNUSABLE) -> int:
    line = printable(words)
    print(line if status == INTERRUPTED else f"error: {line}", file=sys.stderr)
    if "--json" in arguments:
        print(json.dumps({"error": line}))
    return status
