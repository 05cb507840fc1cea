"""Packages for a GPU machine that reaches no index: pip downloads them here, and a script installs them there.

    python bench/carry_packages.py FOLDER                 # here: FOLDER/part-1, part-2, ..., unpack.sh and env.sh
    bash FOLDER/unpack.sh TO FOLDER/part-*                # there: what these parts hold, into TO; parts may come apart
    source TO/env.sh                                      # there, in each shell

``--python`` and ``--groups`` say for which Python (3.12), and what of it: ``wheels``, languages and other people's
kernels; ``cute``, the CuTe DSL; ``cutile``, the compilers that cuTile calls; ``tilelang``, which wants another TVM FFI
and goes into a folder of its own. Large libraries are packed anew, two thirds smaller than as wheels. No part is larger
than ``--largest`` MB.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

WHEELS = (
    *("numpy==2.4.6", "jsonschema", "attrs", "referencing", "rpds-py", "jsonschema-specifications", "greenlet"),
    *("typing_extensions", "liger-kernel==0.8.5", "helion==1.5.0", "expecttest", "filecheck", "cuda-tile==1.7.0"),
    *("quack-kernels==0.6.5", "flag-gems==5.0.2", "apache-tvm-ffi==0.1.15", "torch-c-dlpack-ext", "einops"),
    *("sqlalchemy==2.0.48", "tilegym==1.5.1", "cuda-cccl==1.2.1", "nvidia-cuda-cccl==13.3.5.0.6"),
    "ml-dtypes",
)
CUTE = tuple(f"nvidia-cutlass-dsl{part}==4.8.1" for part in ("", "-libs-base", "-libs-core", "-libs-cu13"))
CUTILE = tuple(f"{name}==13.4.92" for name in ("nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm"))
TILELANG = ("tilelang==0.1.15", "apache-tvm-ffi==0.1.12", "z3-solver==4.15.4.0", "cloudpickle", "ml-dtypes")
NEEDED = ("bin/tileiras", "bin/ptxas", "lib/libnvvm.so.4", "nvvm/libdevice/")
"""Of the compilers, below ``nvidia/cu13``; the rest is for other work."""
GLIBC = (*(f"manylinux_2_{minor}" for minor in (35, 34, 31, 28, 27, 26, 24, 17)), "manylinux2014", "manylinux1")
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 64 << 20}]

UNPACK = """\
#!/bin/bash
# Installs what bench/carry_packages.py packed: bash unpack.sh TO PART...; an archive once all its pieces are there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$1
shift
mkdir -p "$to/parts"
for part in "$@"; do cp "$part"/* "$to/parts/"; done
cp "$here/env.sh" "$to/"
# Unpacked, since pip would put a wheel's folder in place of another's of that name: several hold a folder "cuda".
install() { for wheel in "${@:2}"; do python3 -m zipfile -e "$wheel" "$1"; done; }
shopt -s nullglob
install "$to/site" "$to"/parts/*.whl
for first in "$to"/parts/*.tar.xz.1-of-*; do
    name=${first%.1-of-*}
    count=${first##*-of-}
    pieces=()
    for i in $(seq "$count"); do pieces+=("$name.$i-of-$count"); done
    for piece in "${pieces[@]}"; do [ -e "$piece" ] || { echo "waits for $piece"; continue 2; }; done
    python3 -c '
import io, sys, tarfile
class Pieces(io.RawIOBase):
    files = [open(name, "rb") for name in sys.argv[2:]]
    def readable(self): return True
    def readinto(self, into):
        while self.files:
            if got := self.files[0].readinto(into): return got
            self.files.pop(0).close()
        return 0
with tarfile.open(fileobj=io.BufferedReader(Pieces()), mode="r|xz") as archive:
    archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
    archive.extractall(sys.argv[1])
' "$to" "${pieces[@]}"
    rm "${pieces[@]}"
done
install "$to/tilelang" "$to"/wheels-tilelang/*.whl
rm -rf "$to/parts"/*.whl "$to/wheels-tilelang"
"""
ENV = """\
# What bench/carry_packages.py packed, for this shell: source env.sh; for TileLang, in another: source env.sh tilelang
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
unset CUDA_HOME CUDA_PATH
export PYTHONPATH="$here/site:$here/cutepk:$here/cutepk/nvidia_cutlass_dsl/dsl_packages"
[ "${1:-}" != tilelang ] || export PYTHONPATH="$here/tilelang:$here/site"
[ ! -d "$here/cu/bin" ] || export PATH="$here/cu/bin:$PATH"
"""


def download(names: Sequence[str], to: Path, python: str) -> None:
    """Fetch these wheels for Linux on x86-64, and none of their needs."""
    tag = f"cp{python.replace('.', '')}"
    for_linux = [word for name in GLIBC for word in ("--platform", f"{name}_x86_64")]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--implementation", "cp", "-d", str(to)]
    abis = [word for abi in (tag, "abi3", "none") for word in ("--abi", abi)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, *abis, *for_linux, "--platform", "any", *names], check=True)


def unzipped(wheels: Path, to: Path) -> None:
    """The files of wheels as they would be installed, with their modes."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                made = Path(archive.extract(info, to))
                if mode := info.external_attr >> 16:
                    made.chmod(mode & 0o777)


def packed(folder: Path, to: Path) -> None:
    """One archive of the folder, which is its first name there; x86 code packs smaller with its filter."""
    with lzma.open(to, "wb", format=lzma.FORMAT_XZ, filters=FILTERS) as out, tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(folder, folder.name)


def compilers(everything: Path, to: Path) -> None:
    """Of the CUDA compilers what cuTile calls."""
    for (root,) in [list(everything.glob("nvidia/cu1*"))]:
        for name in NEEDED:
            source, made = root / name, to / name
            made.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, made)
            else:
                shutil.copy2(source, made)


def pieces(file: Path, largest: int) -> Iterator[Path]:
    """The file as it is if it is a wheel that fits, or as pieces that say of how many they are."""
    if file.suffix == ".whl" and file.stat().st_size <= largest:
        yield file
        return
    count = -(-file.stat().st_size // largest)
    with file.open("rb") as source:
        for number in range(1, count + 1):
            piece = file.with_name(f"{file.name}.{number}-of-{count}")
            with piece.open("wb") as out:
                left = largest
                while left and (block := source.read(min(left, 1 << 20))):
                    out.write(block)
                    left -= len(block)
            yield piece
    file.unlink()


def parts(files: Sequence[Path], largest: int) -> list[list[Path]]:
    """The files in as few parts as the largest first gives, none larger."""
    made: list[tuple[int, list[Path]]] = []
    for file in sorted(files, key=lambda file: -file.stat().st_size):
        size = file.stat().st_size
        for index, (held, names) in enumerate(made):
            if held + size <= largest:
                made[index] = held + size, [*names, file]
                break
        else:
            made.append((size, [file]))
    return [names for _, names in made]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Packages for a GPU machine that reaches no index; see the source.")
    parser.add_argument("folder", type=Path, help="where the parts go")
    parser.add_argument("--python", default="3.12", help="of the GPU machine (default: %(default)s)")
    parser.add_argument("--groups", default="wheels,cute,cutile", help="of wheels, cute, cutile, tilelang")
    parser.add_argument("--largest", type=float, default=60, help="MB in a part (default: %(default)s)")
    options = parser.parse_args(argv)
    groups, largest = options.groups.split(","), int(options.largest * 1e6)
    options.folder.mkdir(parents=True, exist_ok=True)
    if any(options.folder.iterdir()):
        parser.error(f"{options.folder} is not empty: name another folder")
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work, ready = Path(temporary), Path(temporary) / "ready"
        ready.mkdir()
        if "wheels" in groups:
            download(WHEELS, ready, options.python)
        if "cute" in groups:
            download(CUTE, work / "cute", options.python)
            unzipped(work / "cute", work / "cutepk")
            packed(work / "cutepk", ready / "cute.tar.xz")
        if "cutile" in groups:
            download(CUTILE, work / "cutile", options.python)
            unzipped(work / "cutile", work / "compilers")
            compilers(work / "compilers", work / "cu")
            packed(work / "cu", ready / "cutile.tar.xz")
        if "tilelang" in groups:
            download(TILELANG, work / "wheels-tilelang", options.python)
            packed(work / "wheels-tilelang", ready / "tilelang.tar.xz")
        files = [piece for file in sorted(ready.iterdir()) for piece in pieces(file, largest)]
        for number, held in enumerate(parts(files, largest), 1):
            part = options.folder / f"part-{number}"
            part.mkdir()
            for file in held:
                file.rename(part / file.name)
            size = sum(file.stat().st_size for file in part.iterdir())
            print(f"{part}: {size / 1e6:.1f} MB, {len(held)} files")
    for name, text in (("unpack.sh", UNPACK), ("env.sh", ENV)):
        (options.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
