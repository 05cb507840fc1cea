"""The programs of bench/ that have no file of tests of their own."""

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from scripts import loaded

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"
jobs, repeat, languages = (loaded(BENCH / f"{name}.py") for name in ("jobs", "repeat_peers", "languages"))

# jobs.py: what runs after the other, what together, and what is cut off or not begun

LIST = """
# a remark
first 5 sleep 0.3; echo one > {to}/made
second 5 cat {to}/made
never 900 echo never
+beside 4 echo a; exit 3
+long 0.2 sleep 60
0:left 4 until [ -e {to}/right ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES
1:right 4 touch {to}/right; echo $CUDA_VISIBLE_DEVICES
"""


def test_jobs_run_in_order_and_together_within_the_time(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(LIST, encoding="utf-8")
    to = tmp_path / "to"
    assert jobs.main([str(tmp_path / "list.txt"), "--minutes", "0.3", "--to", str(to)]) == 0
    told = dict(line.split(": ", 1) for line in (to / "jobs.log").read_text().splitlines())
    assert {*list(told)[:2]} == {"left", "right"} and list(told)[2:5] == ["first", "second", "never"]
    assert told["left"].startswith("status 0")  # so it waited for what ran beside it
    assert [(to / f"{name}.log").read_text() for name in ("left", "right")] == ["0\n", "1\n"]
    assert told["first"].startswith("status 0") and told["beside"].startswith("status 3")
    assert told["never"].startswith("not begun") and told["long"].startswith("cut off")
    assert (to / "second.log").read_text() == "one\n"


def test_every_job_of_the_list_is_one() -> None:
    found = jobs.read((BENCH / "jobs.txt").read_text(encoding="utf-8"))
    assert len({job.name for job in found}) == len(found) > 10
    assert all(Path(ROOT, word).exists() for job in found for word in job.command.split() if word.endswith(".py"))


def test_a_job_waives_what_it_measures() -> None:
    found = jobs.read((BENCH / "jobs.txt").read_text(encoding="utf-8"))
    words = [part.split() for job in found for part in job.command.split(";") if "--waive" in part]
    assert words
    for given in words:
        names = "--op", "--backend", "--variant", "--waive"
        named = {name: given[given.index(name) + 1].split(",") for name in names}
        for id in named["--waive"]:
            backend, op, variant = id.split("/")
            assert backend in named["--backend"] and op in named["--op"] and variant in named["--variant"], id


# carry_packages.py: what is packed arrives whole, in parts that are no larger than asked for


@pytest.fixture
def carry(monkeypatch):
    """The program, which downloads wheels that are made up."""
    carry = loaded(BENCH / "carry_packages.py")

    def download(names, to: Path, python: str) -> None:
        to.mkdir(exist_ok=True)
        with carry.zipfile.ZipFile(to / "big-1.0-py3-none-any.whl", "w") as wheel:
            info = carry.zipfile.ZipInfo("nvidia/cu13/bin/ptxas")
            info.external_attr = 0o755 << 16
            wheel.writestr(info, bytes(range(256)) * 40)
            for name in ("bin/tileiras", "lib/libnvvm.so.4", "lib/not-needed.so", "nvvm/libdevice/a.bc"):
                wheel.writestr(f"nvidia/cu13/{name}", name)

    monkeypatch.setattr(carry, "download", download)
    monkeypatch.setattr(carry, "FILTERS", [{"id": carry.lzma.FILTER_X86}, {"id": carry.lzma.FILTER_LZMA2, "preset": 0}])
    return carry


def test_archives_come_in_parts_and_are_put_together_there(carry, tmp_path: Path) -> None:
    made, there = tmp_path / "carry", tmp_path / "there"
    assert carry.main([str(made), "--groups", "cute,cutile", "--largest", "0.0005"]) == 0
    parts = sorted(made.glob("part-*"))
    assert len(parts) > 2 and all(sum(f.stat().st_size for f in part.iterdir()) <= 500 for part in parts)
    command = ["bash", str(made / "unpack.sh"), str(there)]
    first = subprocess.run([*command, str(parts[0])], capture_output=True, text=True, check=True)
    assert "waits for" in first.stdout or (there / "cu").exists()
    subprocess.run([*command, *map(str, parts[1:])], check=True, capture_output=True)
    for folder in (there / "cu", there / "cutepk" / "nvidia" / "cu13"):
        assert (folder / "bin" / "ptxas").read_bytes() == bytes(range(256)) * 40
        assert (folder / "bin" / "ptxas").stat().st_mode & 0o111
        assert (folder / "nvvm" / "libdevice" / "a.bc").read_text() == "nvvm/libdevice/a.bc"
    assert not (there / "cu" / "lib" / "not-needed.so").exists()
    told = f"export CUDA_HOME=x; source {there}/env.sh; echo ${{CUDA_HOME-unset}} $PYTHONPATH $PATH"
    shell = subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=True).stdout
    assert shell.startswith(f"unset {there}/site:{there}/cutepk:") and f" {there}/cu/bin:" in shell


def test_wheels_of_several_parts_share_a_folder(tmp_path: Path) -> None:
    """As cuda.compute and cuda.tile share theirs: pip would put one in place of the other."""
    script = tmp_path / "unpack.sh"
    script.write_text(loaded(BENCH / "carry_packages.py").UNPACK, encoding="utf-8")
    (tmp_path / "env.sh").touch()
    for name in ("compute", "tile"):
        (tmp_path / name).mkdir()
        with zipfile.ZipFile(tmp_path / name / f"{name}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"cuda/{name}/__init__.py", "")
        subprocess.run(["bash", script, tmp_path / "there", tmp_path / name], check=True)
    assert {place.name for place in (tmp_path / "there" / "site" / "cuda").iterdir()} == {"compute", "tile"}


def test_pip_fetches_for_linux_and_no_needs(monkeypatch, tmp_path: Path) -> None:
    carry, asked = loaded(BENCH / "carry_packages.py"), []
    monkeypatch.setattr(carry.subprocess, "run", lambda command, check: asked.append(command))
    carry.download(["numpy==2.4.6"], tmp_path, "3.12")
    (command,) = asked
    assert command[1:4] == ["-m", "pip", "download"] and command[-1] == "numpy==2.4.6"
    assert {"--no-deps", "--only-binary=:all:", "cp312", "abi3", "manylinux_2_28_x86_64", "any"} <= {*command}
    assert carry.parts([], 1) == []


def test_a_folder_that_holds_something_is_not_written_into(carry, tmp_path: Path) -> None:
    (tmp_path / "held").touch()
    with pytest.raises(SystemExit):
        carry.main([str(tmp_path)])


# repeat_peers.py: what agrees, what doesn't, and what can't be repeated


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
    folder = BENCH / "peers"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = {peer.id.split("/")[0] for peer in repeat.PEERS}
    registered = {line.split('"')[1] for line in text.splitlines() if line.startswith("@kernelzoo.register(")}
    assert registered == named


def test_without_a_gpu_it_measures_nothing(tmp_path: Path, capsys) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert repeat.main(["-o", str(tmp_path / "r.json")]) == 2
    assert "no GPU" in capsys.readouterr().err


# test_submit.py: each language's own launch is the fastest that it documents, and says where


@pytest.fixture
def submit():
    return loaded(BENCH / "test_submit.py")


def test_every_language_names_the_page_that_its_launch_is_from(submit) -> None:
    for name, own in submit.OWN.items():
        assert re.search(r'"[A-Z].+?".*\s+https://\S+\.(html|py)', own.__doc__ or "", re.DOTALL), name


@pytest.mark.parametrize("installed", [True, False])
def test_cute_is_compiled_with_tvm_ffi_or_says_that_it_is_not(submit, monkeypatch, installed: bool) -> None:
    told = {}

    def compile(host, *arguments, options: str = ""):
        told["options"] = options
        return lambda *arguments: told.setdefault("called", arguments)

    runtime = SimpleNamespace(from_dlpack=lambda x, **how: (x, how), make_fake_stream=lambda **how: "stream")
    cute = SimpleNamespace(kernel=lambda f: f, jit=lambda f: f, Tensor=object, compile=compile, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cutlass", SimpleNamespace(Int32=int, cute=cute))
    monkeypatch.setitem(sys.modules, "cutlass.cute", cute)
    monkeypatch.setitem(sys.modules, "cutlass.cute.runtime", runtime)
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(CUstream=lambda stream: stream))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed or None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    x, out = torch.zeros(2, 2), torch.zeros(2, 2)
    submit.cute_own(x, out)()
    detail = submit.told("cute/softmax/language", [1e-6], "cpu")["clock_detail"]
    assert told["options"] == "--enable-tvm-ffi" * installed
    assert told["called"] == ((x, out, 64) if installed else ((x, {}), (out, {}), 64, 7))
    assert ("without TVM FFI" in detail) is not installed
    assert "TVM" not in submit.told("cute/softmax/bound", [1e-6], "cpu")["clock_detail"]


# languages.py: a form's lines, and what stands where nothing is measured


@pytest.mark.parametrize("op", languages.OPS)
def test_every_language_is_in_every_table(op: str) -> None:
    lines = languages.lines_of(op)
    assert lines.headers[1:] == list(languages.NAMES.values())
    (shared,) = [row for row in lines.rows if row[0].text == {"softmax": "fused", "min": "rows"}[op]]
    assert all(int(cell.text) > 20 for cell in shared[1:])
    rows = languages.measurements(op, []).rows
    assert [[cell.text for cell in row] for row in rows] == [[name, *"-------"] for name in languages.NAMES.values()]
