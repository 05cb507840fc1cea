"""The command line as a whole: what it loads, what it says to bad usage, and with which status it ends."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kernelzoo import operations
from kernelzoo.cli import app, main

RESULTS = Path(__file__).parents[2] / "bench" / "results"
SWEEPS = [str(RESULTS / f"h200-sweep{part}.json.gz") for part in ("-a", "-b")]
COMMANDS = ("list", "doctor", "verify", "bench", "compare", "inspect", "report")


WRONG: list[tuple[list[str], str]] = [
    (["frobnicate"], "frobnicate"),
    (["list", "--op", "max"], f"no operation 'max'; known: {', '.join(sorted(operations.BUILT_IN))}"),
    (["bench", "--rounds", "many"], "--rounds"),
    (["bench", "--rounds", "0"], "--rounds"),
    (["bench", "--shapes", "huge"], "no shape set 'huge'; known: "),
    (["bench", "--shape", "3x0"], "no shape '3x0'"),
    (["bench", "--dtype", "float8"], "no dtype 'float8'; did you mean 'float"),
    (["bench", "--shape", "40,20"], "did you mean --shape 40x20?"),
    (["compare", "torch/eager", "--op", "softmax", "--shape", "99999999999999999999x2"], "has 2e+20 elements"),
    (["compare", "torch/*/eager", "--op", "vecdot", "--axes", "outer=9999999999,n=9999999999"], "elements, more"),
    (["inspect", "triton/softmax/fused", "--shape", "99999999999999999999x2"], "more than memory"),
    (["list", "--op", "sofmax"], "no operation 'sofmax'; did you mean 'softmax'?"),
    (["list", "--backend", "trition"], "no backend 'trition'; did you mean 'triton'?"),
    (["verfy"], "Did you mean 'verify'? See kernelzoo --help"),
    (["verify", "--jsno"], "--json"),
    (["verify", "cpu"], "did you mean 'cpu/*'?"),
    (["verify", "triton/softmax_backward/online"], "triton/softmax_backward/split does its work"),
    (["verify", "--case", "float32-3x12"], "no case 'float32-3x12'; did you mean float32-3x"),
    (["verify", "--case", "float32-*", "--dtype", "int8"], "leave no case"),
    (["verify", "--dtype", "flaot32"], "no dtype 'flaot32'; did you mean 'float32'?"),
    (["fuzz", "cpu/sofmax/auto"], "did you mean cpu/softmax/auto?"),
    (["fuzz", "torch/min/eager", "--case", "{}"], "no case '{}'"),
    (["inspect", "triton/softmax/fused", "--dtype", "flaot16"], "no dtype 'flaot16'; did you mean 'float16'"),
    (["bench", "--cache", "warm"], "no state of the cache 'warm'; known: cold, hot"),
    (["bench", "--resume"], "-o FILE"),
    (["bench", "--module", "nowhere.py"], "no file 'nowhere.py' for --module"),
    (["verify", "--device", "gpu"], "no device 'gpu'; allowed: cpu, cuda"),
    (["compare"], "name the implementations to compare"),
    (["compare", "torch", "--op", "softmax", "--allowed", "5"], "like 5% or 0.05"),
    (["compare", "torch", "--op", "softmax", "--against", "nowhere.json"], "nowhere.json"),
    (["inspect", "triton/softmax/fusd"], "did you mean triton/softmax/fused"),
    (["inspect", "cpu/min/auto", "--arch", "sm_1"], "sm_1"),
    (["accuracy", "torch/softmax/naive", "--values", "many"], "no number of values 'many'"),
    (["compare", "torch/min/auto", "--clock", "sundial"], "no clock 'sundial'; known: call, device"),
    (["compare", "torch/min/auto", "--energy", "--clock", "call"], "--energy measures launches"),
    (["bench", "--op", "min", "--shapes", "random:many"], "no shape set 'random:many'; known: axes, full"),
    (["bench", "--device", "meta"], "allowed: cpu, cuda"),
    (["bench", "--shard", "4/3"], "no shard '4/3'"),
    (["bench", "--shard", "1"], "like 1/4"),
    (["bench", "--gpus", "0", "--device", "cuda:0"], "leave out --device"),
    (["bench", "--gpus", "0", "--engine", "ray"], "leave out --gpus"),
    (["bench", "--address", "auto"], "add --engine ray"),
    (["bench", "--engine", "slurm"], "no engine 'slurm'; known: local, ray"),
    (["bench", "--gpus", "0,1", "--first-call"], "takes neither"),
    (["tune", "--backend", "cuda"], "no backend 'cuda'; known: cpu"),
    (["tune", "--op", "max"], "no operation 'max'"),
    (["tune", "--dtype", "int3"], "no dtype 'int3'; did you mean 'int32'"),
    (["tune", "--arch", "sm_90"], "add --dry-run"),
    (["tune", "--dry-run", "--arch", "sm_1"], "no architecture 'sm_1'; did you mean 'sm_120'"),
    (["tune", "--time-limit", "0"], "--time-limit"),
    (["tune", "--dry-run", "--reset"], "leave out --reset and -o"),
    (["tune", "--dry-run", "--arch", "sm_90", "-o", "t.json"], "leave out --reset and -o"),
    (["show", "soft"], "no operation 'soft'; did you mean 'softmax'?"),
    (["show", "softmax", "--language", "cuda"], "no language 'cuda'; known: cpu, cupy"),
    (["show", "softmax", "--results", "nowhere.json"], "nowhere.json"),
    (["history", SWEEPS[0]], "at least two runs"),
    (["history", *SWEEPS], "no two of these runs"),
    (["history", *SWEEPS, "--by", "much"], "no share 'much'"),
    (["history", SWEEPS[0], "nowhere.json"], "nowhere.json"),
    (["report", "nowhere.json"], "nowhere.json"),
    (["report", "--check", SWEEPS[0]], "--check needs --insert"),
    (["report", SWEEPS[0], "--frobnicate"], "--frobnicate"),
    (["bench", "--backend", "trition"], "no backend 'trition'; did you mean 'triton'?"),
    (["bench", "--variant", "fusd"], "no variant 'fusd'; did you mean 'fused'"),
    (["bench", "--first-call", "--variant", "fusd"], "no variant 'fusd'; did you mean 'fused'"),
    (["compare", "torch/eager", "--op", "softmax", "--baseline", "torch/egaer"], "did you mean torch/eager?"),
    (["compare", "torch/eager", "--op", "softmax", "--dim", "5"], "no axis 5 in a shape of 2"),
]
"""Commands that mean nothing, and words of the line that says so."""


# What each part of the command line may say before it imports torch; all in one process, which starts without it.
QUICK = """
import contextlib, io, json, os, sys
from kernelzoo.cli import app, main
assert not {"torch", "numpy"} & {*sys.modules}
said = {}
for arguments in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(arguments)
    said[" ".join(arguments)] = [status, "torch" in sys.modules]
for words in json.loads(sys.argv[2]):
    os.environ |= {"_KERNELZOO_COMPLETE": "complete_bash", "COMP_WORDS": words}
    os.environ["COMP_CWORD"] = str(len(words.split()) - 1)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([])
    said[words] = [out.getvalue().split(), "torch" in sys.modules]
print(json.dumps(said))
"""


def test_wrong_words_and_completion_import_no_torch() -> None:
    wrong = [arguments for arguments, _ in WRONG]
    completed = {
        "kernelzoo ver": ["verify"],
        "kernelzoo verify triton/softmax/multi_row_l": [
            f"triton/softmax/multi_row_{name}" for name in ("lanes", "loop")
        ],
        "kernelzoo list --op softmax_b": ["softmax_backward", "softmax_backward_finish"],
        "kernelzoo list --backend cpu,tr": ["cpu,triton"],
        "kernelzoo verify --dtype bf": ["bfloat16"],
        "kernelzoo inspect torch/min/eag": ["torch/min/eager"],
    }
    command = [sys.executable, "-c", QUICK, json.dumps(wrong), json.dumps(list(completed))]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said == {" ".join(words): [2, False] for words in wrong} | {
        words: [found, False] for words, found in completed.items()
    }


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", ["", *COMMANDS, "fuzz", "accuracy", "merge", "tune", "history"])
def test_help_is_whole_and_names_no_type(command, width, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*filter(None, [command]), "--help"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out and not re.search(r"\w\.\.\.$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= width
    assert not re.search(r"<(bool|str|int|float|list|Path)", out)
    assert "Exit status" in out and (command or {*COMMANDS} <= {*out.split()})
    root = typer.main.get_command(app)
    told = root.commands[command] if command else root  # type: ignore[attr-defined]
    words = set(out.split())
    for text in (told.help, *(getattr(parameter, "help", "") for parameter in told.params)):
        assert {*(text or "").split()} <= words
    names = {name for parameter in told.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {name for name in names if name.startswith("-")} <= {word.rstrip(",") for word in words}


def test_no_command_is_bad_usage(capsys) -> None:
    assert main([]) == 2
    assert "Commands" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"), WRONG, ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_bad_usage_is_one_line_and_status_2(arguments, told, capsys) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and told in err
    assert main([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert told in json.loads(out)["error"] and err.count("\n") == 1


def test_an_option_without_its_value_names_the_help_of_its_command(capsys) -> None:
    assert main(["verify", "--dtype"]) == 2
    assert capsys.readouterr().err.endswith("; see kernelzoo verify --help\n")


def test_the_module_runs_and_ends_with_the_status(process) -> None:
    done = process("list", "--op", "max")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: no operation 'max'; known: {', '.join(sorted(operations.BUILT_IN))}\n"
