"""bench/carry_packages.py: what is packed arrives whole, in parts that are no larger than asked for."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).parents[1]


@pytest.fixture
def carry(monkeypatch):
    """The program, which downloads wheels that are made up."""
    carry = loaded(ROOT / "bench" / "carry_packages.py")

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
    script.write_text(loaded(ROOT / "bench" / "carry_packages.py").UNPACK, encoding="utf-8")
    (tmp_path / "env.sh").touch()
    for name in ("compute", "tile"):
        (tmp_path / name).mkdir()
        with zipfile.ZipFile(tmp_path / name / f"{name}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"cuda/{name}/__init__.py", "")
        subprocess.run(["bash", script, tmp_path / "there", tmp_path / name], check=True)
    assert {place.name for place in (tmp_path / "there" / "site" / "cuda").iterdir()} == {"compute", "tile"}


def test_pip_fetches_for_linux_and_no_needs(monkeypatch, tmp_path: Path) -> None:
    carry, asked = loaded(ROOT / "bench" / "carry_packages.py"), []
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
