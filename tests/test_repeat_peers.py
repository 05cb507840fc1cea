"""bench/repeat_peers.py: what agrees, what doesn't, and what can't be repeated."""

from pathlib import Path

import pytest
import torch
from scripts import loaded

ROOT = Path(__file__).parents[1]
repeat = loaded(ROOT / "bench" / "repeat_peers.py")


@pytest.mark.parametrize(("theirs", "agrees"), [(104e-6, True), (96e-6, True), (106e-6, False), (94e-6, False)])
def test_two_clocks_agree_within_5_percent(theirs: float, agrees: bool) -> None:
    row = {"id": "a/softmax/b", "dtype": "float32", "shape": [2, 3], **repeat.judged(100e-6, theirs)}
    assert row["agrees"] is agrees
    assert ("agrees" in repeat.line(row)) is agrees and "ours 100.0 µs" in repeat.line(row)


def test_a_third_way_is_told_where_two_clocks_differ() -> None:
    row = {"id": "a/softmax/b", "dtype": "float32", "shape": [2, 3], **repeat.judged(100e-6, 120e-6)}
    assert "plain" not in repeat.line(row)
    assert repeat.line(row | repeat.third(100e-6, 101e-6)).endswith("more than 5% apart; plain 101.0 µs, 1.010")


def test_what_can_not_be_repeated_says_why(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    rows = {peer: repeat.repeated(peer, torch.device("cpu")) for peer in repeat.PEERS if peer.own is None}
    told = {row["id"]: row["skipped"] for row in rows.values()}
    assert "the figure is of an H100, this is an NVIDIA H200" in told["quack/softmax/library"]
    assert "NVIDIA publishes no figure" in told["cub/min/library"]


def test_every_peer_is_repeated_or_says_why_not() -> None:
    folder = ROOT / "bench" / "peers"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = {peer.id.split("/")[0] for peer in repeat.PEERS}
    registered = {line.split('"')[1] for line in text.splitlines() if line.startswith("@kernelzoo.register(")}
    assert registered == named


def test_without_a_gpu_it_measures_nothing(tmp_path: Path, capsys) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert repeat.main(["-o", str(tmp_path / "r.json")]) == 2
    assert "no GPU" in capsys.readouterr().err
