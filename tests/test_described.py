"""The checks of described launches can fail: each fault that a launch may have, made up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matrix
import pytest

from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import InspectionError, UnsupportedProblemError
from kernelzoo.inspect import Kernel

RIGHT = Kernel(
    "k", "made up", "made_up/min/k", "sm_90", "a device",
    registers=64, shared_bytes=1024, grid=(132, 1, 1), block=(256, 1, 1), cluster=(1, 1, 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "change", "said"),
    [
        ("sm_90", {}, ""),
        ("sm_90", {"block": (1056, 1, 1)}, "1056 threads"),
        ("sm_90", {"block": (48, 1, 1)}, "48 threads"),
        ("gfx942", {"block": (32, 1, 1)}, "32 threads"),
        ("sm_90", {"registers": 256, "block": (32, 1, 1)}, "256 registers a thread"),
        ("sm_90", {"registers": 65, "block": (1024, 1, 1)}, "a block that no multiprocessor holds"),
        ("sm_90", {"shared_bytes": 227 * 1024 + 1}, "bytes of shared memory"),
        ("sm_120", {"shared_bytes": 99 * 1024 + 1}, "bytes of shared memory"),
        ("sm_75", {"shared_bytes": 64 * 1024 + 1}, "bytes of shared memory"),
        ("sm_90", {"grid": (2**31, 1, 1)}, "a grid of"),
        ("sm_90", {"grid": (1, 65536, 1)}, "a grid of"),
        ("sm_90", {"grid": (132 * 4, 1, 1), "cooperative": True}, ""),
        ("sm_90", {"grid": (132 * 4 + 1, 1, 1), "cooperative": True}, "529 blocks at once, of 528"),
        ("sm_90", {"cluster": (16, 1, 1), "grid": (160, 1, 1)}, ""),
        ("sm_120", {"cluster": (16, 1, 1), "grid": (160, 1, 1)}, "a cluster of 16, of 8"),
        ("sm_89", {"cluster": (2, 1, 1)}, "a cluster of 2, of 0"),
        ("sm_90", {"cluster": (8, 1, 1)}, "in clusters of"),
    ],
)
def test_faults(arch: str, change: dict[str, Any], said: str) -> None:
    found = list(matrix.faults(replace(RIGHT, **change), ARCHITECTURES[arch]))
    assert any(said in fault for fault in found) if said else not found


def test_a_refusal_is_documented_or_a_fault() -> None:
    request = matrix.Laid("made_up", "min", "rows", (4, 4), "float32", -1, "sm_75")
    refusal = UnsupportedProblemError(request.id, "too long")
    assert matrix.is_documented(refusal, request)
    assert not matrix.is_documented(refusal, replace(request, variant="auto"))
    refused = InspectionError(f"{request.id} is CUDA C++, which is not for sm_75; allowed: sm_80, sm_90")
    assert matrix.is_documented(refused, request)
    assert not matrix.is_documented(InspectionError("the compiler fails"), request)


def test_layouts_are_what_they_say() -> None:
    def asked(layout: str) -> Any:
        return matrix.Laid("made_up", "min", "rows", (6, 40), "bfloat16", -1, "sm_90", layout=layout).input("meta")

    assert asked("contiguous").is_contiguous() and asked("contiguous").data_ptr() % 16 == 0
    assert asked("unaligned").data_ptr() % 16 == 2
    assert asked("padded").stride() == (43, 1) and asked("stepped").stride() == (80, 2)
    assert all(asked(problem.layout).shape == (6, 40) for problem in matrix.LAYOUTS)


def test_rows_are_replaced_and_those_before_an_interrupt_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, ran = tmp_path / "architectures.json", list[str]()

    def examined(asked: list[matrix.Laid]) -> matrix.Findings:
        ran.append(asked[0].arch)
        if len(ran) == 3:
            raise KeyboardInterrupt
        row = {"backend": asked[0].backend, "architecture": asked[0].arch}
        return row | {"problems": len(asked), "faults": 0, "seconds": 1.0}, [], []

    monkeypatch.setattr(matrix, "examined", examined)
    command = ["-o", str(record), "--backends", "cupy"]
    with pytest.raises(KeyboardInterrupt):
        matrix.main([*command, "--few"])
    assert matrix.main([*command, "--architectures", ",".join(list(ARCHITECTURES)[1:3])]) == 0
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"]
    assert [row["architecture"] for row in rows] == list(ARCHITECTURES)[:3]
    assert rows[0]["problems"] < rows[1]["problems"] == rows[2]["problems"]
