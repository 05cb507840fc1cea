"""``kernelzoo accuracy``: its table, its record, and what it says of a kernel that is off."""

import json

KERNELS = """
import torch
import kernelzoo

@kernelzoo.register("mine", "softmax", "half")
def half(x, out):
    return lambda: (out.copy_(torch.softmax(x.to(torch.float16), 1)), None)[1]

@kernelzoo.register("mine", "min", "right")
def right(x, out):
    return lambda: (out.copy_(x.amin(1)), None)[1]

@kernelzoo.register("mine", "min", "ends")
def ends(x, out):
    raise SystemExit("no more")
"""


def test_errors_are_told_and_kept(answer, tmp_path) -> None:
    module, file = tmp_path / "mine.py", tmp_path / "accuracy.json"
    module.write_text(KERNELS)
    options = ("--module", module, "--dtype", "float32", "--device", "cpu", "--seed", "1", "--jobs", "1")
    status, told = answer("accuracy", *options, "--values", "2e4", "-o", file)
    assert status == 1 and told == json.loads(file.read_text())
    assert told["format"] == "kernelzoo-accuracy/1" and told["environment"]["versions"]["torch"]
    rows = {row["id"]: row for row in told["rows"]}
    assert list(rows) == ["torch.softmax", "mine/softmax/half", "mine/min/ends", "mine/min/right"]
    assert rows["torch.softmax"]["worst_ulp"] < 1e4 < rows["mine/softmax/half"]["worst_ulp"]
    assert rows["mine/softmax/half"]["wrong"] > 1000 and rows["mine/softmax/half"]["worst_family"]
    assert (rows["mine/min/right"]["wrong"], rows["mine/min/right"]["same_bits"]) == (0, True)
    assert "no more" in rows["mine/min/ends"]["failed"]


def test_the_table(kernelzoo) -> None:
    options = ("--dtype", "float32", "--values", "2e4", "--seed", "1", "--device", "cpu")
    done = kernelzoo("accuracy", "torch/softmax/naive", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch.softmax" in done.stdout and "torch/softmax/naive" in done.stdout and "same" in done.stdout
