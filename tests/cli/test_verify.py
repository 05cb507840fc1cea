"""``kernelzoo verify``: the contract alone, and what becomes of kernels that break more than the contract."""

import re
import shlex

import pytest
from registered import forget_operation

from kernelzoo.cli import verify
from kernelzoo.errors import KINDS


def test_findings_are_status_1_and_cost_no_other(answer, bad, capsys) -> None:
    bad.write_text(
        bad.read_text()
        + """
@kernelzoo.operation(dtypes=("float16",))
class halved:
    x, out = kernelzoo.Input("M N"), kernelzoo.Output("M N")
    def reference(x):
        return x / 2

@kernelzoo.register("shy", "halved", "auto")
def auto(x, out):
    raise kernelzoo.UnsupportedProblemError("shy/halved/auto", "it takes nothing")

@kernelzoo.register("shy", "halved", "other")
def other(x, out):
    raise kernelzoo.UnsupportedProblemError("shy/halved/other", "it takes nothing")
"""
    )
    ids = ["bad/softmax/crashes", "bad/softmax/zeros", "bad/softmax/hangs", "shy/halved/*"]
    options = ("--module", bad, "--device", "cpu")
    status, told = answer("verify", *ids[:3], *options, "--dtype", "float16", "--patience", "10")
    assert status == 1
    found = told["results"]
    assert told["wrong"] == list(found) == ids[:3]
    status, told = answer("verify", ids[3], *options)
    assert status == 1
    assert told["wrong"] == list(told["results"]) == ["shy/halved/auto", "shy/halved/other"]
    found |= told["results"]
    forget_operation("halved")
    findings = {id: result["findings"] for id, result in found.items()}
    (crash,) = findings["bad/softmax/crashes"]
    assert (crash["kind"], crash["case"], crash["shape"]) == ("crashes", "float16-3x1", [3, 1])
    assert "SIGSEGV" in crash["reason"] and "bad_kernels.py" in crash["reason"]
    hang = findings["bad/softmax/hangs"][0]
    assert hang["kind"] == "hangs" and "hung in check of bad/softmax/hangs" in hang["reason"]
    zeros = found["bad/softmax/zeros"]
    assert len(zeros["findings"]) > 20 and zeros["passed"] < 10  # those that are empty
    assert findings["shy/halved/auto"][0]["kind"] == "refuses"
    assert "auto takes every legal input" in findings["shy/halved/auto"][0]["reason"]
    assert "refused every case" in findings["shy/halved/other"][0]["reason"]
    assert found["shy/halved/other"]["refused"] > 20

    verify._print_result("bad/softmax/zeros", zeros)
    told = capsys.readouterr().out
    assert "  wrong value in 3" in told and "more; --json has them all" in told


def test_a_file_alone_is_checked_for_what_it_adds(answer, tmp_path) -> None:
    text = """
import torch
import kernelzoo

@kernelzoo.register("{backend}", "min", "{variant}")
def plain(x, out):
    def launch():
        out.copy_(x.amin(1))
    return launch
"""
    path = tmp_path / "mine.py"
    path.write_text(text.format(backend="mine", variant="one") + text.format(backend="torch", variant="extra"))
    status, told = answer("verify", "--module", path, "--device", "cpu", "--case", "*-3x3")
    passed = {id: one["passed"] for id, one in told["results"].items()}
    assert status == 0 and passed == {"mine/min/one": 1, "torch/min/extra": 1}
    path.write_text("")
    status, told = answer("verify", "--module", path)
    assert status == 2 and "leave no implementation" in told["error"]


def test_what_cannot_run_here_is_status_2(kernelzoo) -> None:
    done = kernelzoo("verify", "cupy/*/*", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: backend 'cupy' can't run here: ")
    assert "0 checked, 0 with findings" in done.stdout


KINDS_OF_WRONG = """
import torch
import kernelzoo

def wrong(launch):
    @kernelzoo.register("mine", "softmax", launch.__name__)
    def bind(x, out):
        return lambda: launch(x, out)

    return launch

@wrong
def doubles(x, out):
    out.copy_(torch.softmax(x, 1) * 2)

@wrong
def half(x, out):
    out[:, ::2] = torch.softmax(x, 1)[:, ::2]

@wrong
def drops(x, out):
    out.copy_(torch.softmax(x.nan_to_num(0.0, torch.inf, -torch.inf), 1))

@wrong
def changes(x, out):
    out.copy_(torch.softmax(x, 1))
    x.mul_(2)

@wrong
def raises(x, out):
    raise RuntimeError("not today")

@wrong
def differs(x, out):
    y = torch.softmax(x, 1)
    out.copy_(torch.where(torch.rand(x.shape) < 0.5, y, torch.nextafter(y, y.new_ones(()))))

@wrong
def returns(x, out):
    return torch.softmax(x, 1)

@wrong
def several(x, out):
    drops(x, out)
    if x.size(1) == 300:
        changes(x, out)

@kernelzoo.register("mine", "softmax", "none")
def none(x, out):
    out.copy_(torch.softmax(x, 1))
"""


def test_findings_have_a_kind_a_place_and_a_command(kernelzoo, answer, tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(KINDS_OF_WRONG)
    plain, special = "float32-3x129", "float32-special-values-300"
    options = ("--module", path, "--device", "cpu")
    status, told = answer("verify", *options, "--case", plain, "--case", special)
    assert status == 1
    found = {id.split("/")[2]: result["findings"] for id, result in told["results"].items()}
    kinds = {variant: {finding["case"]: finding["kind"] for finding in findings} for variant, findings in found.items()}
    both = {"doubles": "wrong value", "half": "leaves out unwritten", "changes": "changes its input"}
    both |= {"raises": "raises", "differs": "not repeatable", "returns": "wrong kind of result"}
    both |= {"none": "returns no launch"}
    one = {"drops": {special: "drops NaN"}, "several": {special: "changes its input"}}
    assert kinds == {variant: dict.fromkeys((plain, special), kind) for variant, kind in both.items()} | one
    assert {kind for of in kinds.values() for kind in of.values()} <= set(KINDS)
    (double,) = (finding for finding in found["doubles"] if finding["case"] == plain)
    assert (double["dtype"], double["shape"], double["strides"], double["dim"]) == ("float32", [3, 129], [129, 1], -1)
    assert double["place"] == [0, 0] and double["unit"] == "ulp" and double["error"] > 1e6
    low = float(double["expected"].split()[0])
    assert float(double["got"]) == pytest.approx(2 * low, rel=1e-5)
    half = found["half"][0]
    assert half["place"] == [0, 1] and "elements of out were not written" in half["reason"]
    drop = found["drops"][0]
    assert (drop["expected"], drop["error"]) == ("nan", None) and drop["place"] is not None
    assert "mine/softmax/none returned None, not a launch; return a function" in found["none"][0]["reason"]
    # What repeats one runs that case alone.
    assert double["repeat"].endswith(f"--module {path} --device cpu --case {plain}")
    again = kernelzoo(*shlex.split(double["repeat"])[1:])
    assert again.returncode == 1 and "mine/softmax/doubles: 0 passed, 0 refused, 1 findings" in again.stdout
    for words in ("wrong value:", f"case     {plain}", "input    float32 3x129, strides (129, 1), dim=-1", "off by "):
        assert words in again.stdout
    assert f"repeat   {double['repeat']}" in again.stdout


def test_the_gate_s_findings_are_repeated_by_their_seed(answer, tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(KINDS_OF_WRONG)
    options = ("--module", path, "--device", "cpu", "--case", "softmax-bfloat16-4096x1024", "--seed", "7")
    status, told = answer("verify", "mine/softmax/half", *options)
    (finding,) = told["results"]["mine/softmax/half"]["findings"]
    assert status == 1 and (finding["kind"], finding["shape"]) == ("leaves out unwritten", [4096, 1024])
    assert finding["repeat"].endswith(" ".join(options[-4:])) and "gate seed 7" in finding["reason"]


def test_kinds_are_shown_worst_first(capsys) -> None:
    blank = {"shape": None, "error": None, "reason": "because", "repeat": "kernelzoo verify a/b/c"}
    findings = [{**blank, "case": f"{kind} {n}", "kind": kind} for kind in reversed(KINDS) for n in range(7)]
    found = {"passed": 0, "refused": 0, "no_room": 0, "left_out": 7, "findings": findings}
    verify._print_result("a/b/c", found)
    told = capsys.readouterr().out
    assert re.findall(r"^ +(.+) in 7 cases:$", told, re.MULTILINE) == list(KINDS)
    assert told.count("    repeat   kernelzoo") == len(KINDS)
    assert told.count("and 2 more; --json has them all") == len(KINDS)
    assert "7 left out, as each takes seconds to bind (--case '*' runs all)" in " ".join(told.split())


def test_what_a_glob_covers_and_is_absent_is_skipped_once(kernelzoo) -> None:
    case = ("--case", "float32-3x3", "--device", "cpu")
    done = kernelzoo("verify", "*/min/auto", *case, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("skipped cupy/min/auto: backend 'cupy' can't run here: ") == 1
    done = kernelzoo("verify", "torch/min/auto", "cupy/min/auto", *case, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and done.stderr.startswith("error: backend 'cupy' can't run here: ")
    assert "torch/min/auto: 1 passed" in done.stdout


AT_FAULT = """
import kernelzoo

@kernelzoo.operation(dtypes=("float32",))
class broken:
    x, out = kernelzoo.Input("M N"), kernelzoo.Output("M")
    def reference(x):
        return x[:, 2]

@kernelzoo.operation(dtypes=("float32",))
class cancels:
    x, out = kernelzoo.Input("M N"), kernelzoo.Output("M N")
    def reference(x):
        return (x + 1e7) + (x - 1e7)
    def error(ref, unit, tiny):
        return ref.abs() * unit * 2 + tiny

def third(x, out):
    return lambda: None if out.copy_(x[:, 2]) is out else out

def double(x, out):
    return lambda: None if out.copy_(2 * x) is out else out

for variant in ("one", "two"):
    kernelzoo.register("mine", "broken", variant)(third)
    kernelzoo.register("mine", "cancels", variant)(double)
"""


def test_what_is_no_kernel_s_fault_is_told_once(kernelzoo, answer, tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(AT_FAULT)
    options = ("--module", path, "--device", "cpu", "--case", "float32-*")
    status, told = answer("verify", *options)
    forget_operation("broken", "cancels")
    assert (status, told["wrong"]) == (2, [])
    broken, cancels = told["results"]["mine/broken/one"], told["results"]["mine/cancels/one"]
    assert broken["passed"] and {"float32-M=2,N=1", "float32-M=33,N=2"} <= {*broken["at_fault"]}
    assert cancels["passed"] and "float32-M=1,N=64" in cancels["undecidable"] and not cancels["at_fault"]
    done = kernelzoo("verify", *options)
    words = " ".join(done.stdout.split())
    assert done.returncode == 2
    count = len(broken["at_fault"])
    assert words.count(f"broken itself fails in {count} cases, which count for no kernel: float32-M=2,N=1, also") == 1
    assert words.count("its reference raised IndexError:") == 1 and "mine.py:8)" in words
    assert words.count("the bounds of cancels decide nothing in ") == 1
    assert "4 checked, 0 with findings, 0 not checked" in words
    status, told = answer("verify", *options[:4], "--op", "cancels", "--case", "float32-M=1,N=64", "--case", "*-x-NaN*")
    forget_operation("broken", "cancels")
    assert status == 0 and told["wrong"] == []
