"""Sessions: tests and benches, each backend alone in its environment, and the checks of the source itself."""

import contextlib
import csv
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "audit", "tests", "bench"]

CONSTRAINTS = Path(__file__).parent / ".ci" / "constraints.txt"
LANGUAGES = ("triton", "gluon", "cutile", "cute", "helion", "cupy", "numba")
GPU = shutil.which("nvidia-smi") is not None or shutil.which("rocm-smi") is not None
GROUPS = nox.project.dependency_groups
PROJECT = nox.project.load_toml("pyproject.toml")

# The CUDA toolkit whose wheels CuPy and numba-cuda get: that of the driver, 12 or 13.
CUDA = os.environ.get("KERNELZOO_CUDA", "13")
CONFORMANCE = "tests/test_conformance.py"
STORAGES = "tests/test_storages.py"
OTHERS = tuple(word for language in LANGUAGES for word in ("--ignore", f"tests/{language}"))
# What compiles or interprets, and is not in the way of threads of its own; in one process what shares what is compiled.
PARALLEL = ("-n", "auto", "--dist", "loadgroup")
# What mostly waits for processes that it started; in one of ours what shares something that takes long to make.
WAITING = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "loadgroup")
# Without a GPU, kernels run in Triton's interpreter, cuTile's tiles as torch's tensors, in a
# process of their own, as the switch is read at import; the same kernels are compiled ahead of time in another.
INTERPRETER = {"TRITON_INTERPRET": "1"}
EVALUATED = {"KERNELZOO_EVALUATE_CUTILE": "1"}
# The PTX that a language's compiler makes runs in an emulator of ours: the host's C++ compiler, or one from PyPI if it
# has none, compiles it.
PTX_EMULATOR = "KERNELZOO_EMULATE_PTX"
COMPILER = () if shutil.which("g++") or shutil.which("clang++") else ("compiler",)


def install(session: nox.Session, *groups: str, extras: tuple[str, ...] = ()) -> None:
    """Install the project with some extras and dependency groups, at the versions of the constraints file."""
    target = f".[{','.join(extras)}]" if extras else "."
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    if CUDA != "13":  # the toolkit's wheels are pinned for 13; another takes the newest that the extras allow
        lines = [line for line in lines if not line.startswith(("cuda-", "nvidia-"))]
    elif "cutile" in extras:  # whose compiler comes in parts of one version, libNVVM among them
        newer = {line.partition("==")[0]: line.partition("==")[2] for line in lines}["nvidia-cuda-tileiras"]
        lines = [f"nvidia-nvvm=={newer}" if line.startswith("nvidia-nvvm==") else line for line in lines]
    constraints = Path(session.virtualenv.location) / "constraints.txt"  # session.create_tmp would move TMPDIR there
    constraints.write_text("\n".join(lines))
    # Not compiled as it is installed: most of torch is never imported, and each session saves ten seconds. Then it must
    # be kept when it is compiled as it is imported, which an environment may forbid: seconds of every process.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    # The host's kernels, which take seconds each, are compiled once for all sessions, benches and tests.
    session.env["NUMBA_CACHE_DIR"] = str(Path(session.virtualenv.location).parent / "numba")
    link_dependencies(session)
    session.install("--no-compile", "-c", str(constraints), target, *GROUPS(PROJECT, *groups))
    share_files(Path(session.virtualenv.location))


def link_dependencies(session: nox.Session) -> None:
    """Let what the project itself depends on, torch above all, be there already: links to the files of one copy.

    All sessions need it. To unpack it takes half of an installation, and its modules are compiled once too.
    """
    environment = Path(session.virtualenv.location)
    site = next(environment.glob("lib/python*/site-packages"), None)
    if site is None or (site / "torch").exists():
        return
    constraints = environment / "constraints.txt"
    # One copy though cuTile's constraints name another libNVVM: an installation replaces that, or nothing needs it.
    named = [line for line in constraints.read_text().splitlines() if not line.startswith("nvidia-nvvm==")]
    copy = environment.parent / f"dependencies-{hashlib.sha256(chr(10).join(named).encode()).hexdigest()[:12]}"
    if not copy.exists():
        made = Path(tempfile.mkdtemp(dir=environment.parent))
        wanted = PROJECT["project"]["dependencies"]
        session.install("--no-compile", "-c", str(constraints), "--target", str(made), *wanted)
        # Of torch's files, one is for a newer Python.
        session.run_install("python", "-m", "compileall", "-qq", "-j", "0", str(made), success_codes=(0, 1))
        made.rename(copy)
    # An installer that replaces a file makes a new one, and leaves the other links to the old one as they are.
    shutil.copytree(copy, site, copy_function=_link, dirs_exist_ok=True)


def share_files(environment: Path) -> None:
    """Let large files that other environments have too, Triton's compiler above all, be links to one: half of the disk.

    What a file holds is told by the hash that its wheel's RECORD names, so that none is read.
    """
    store = environment.parent / "files"
    store.mkdir(exist_ok=True)
    for record in environment.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as lines:
            for name, digest, size in csv.reader(lines):
                file, kept = record.parents[1] / name, store / digest.replace("=", "-")
                if not digest or int(size or 0) < 1 << 16 or not file.exists():
                    continue
                _link(str(file), str(kept))
                if not file.samefile(kept):
                    link = file.with_name(f"{file.name}.{os.getpid()}")
                    os.link(kept, link)
                    link.replace(file)


def _link(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):  # what a new environment has
        os.link(source, target)


def only(backend: str) -> tuple[str, ...]:
    """Options of the contract's tests: this backend's, which must be there."""
    return "--only", backend, "--kernelzoo-require", backend


def pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Run pytest with two threads' worth of manners: torch and Numba share the cores without spinning on them."""
    session.run("pytest", *arguments, env={"OMP_WAIT_POLICY": "PASSIVE", **environment})


def check(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Run tests, where one that hangs is an error after ten minutes."""
    pytest(session, *arguments, "--timeout=600", **environment)


@nox.session
def quick(session: nox.Session) -> None:
    """Before each commit, in two minutes: style, types, the tests that start no process, torch on the core cases."""
    install(session, "lint", "types", "test", "bench", extras=("cpu", "triton", "report"))
    check_style(session)
    check_types(session)
    chosen = ("-m", "not slow and not nightly", *OTHERS, "--core", "torch")
    check(session, "tests", *chosen, *PARALLEL, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """The project's tests, the contract of torch and of the host, and a third of its core in Triton's interpreter:
    fifteen minutes on two cores. What is marked ``nightly`` is left out. ``nox -s tests-all`` takes all."""
    install_for_tests(session)
    check(session, "tests", "-m", "not nightly", *OTHERS, "--only", "torch,cpu", *WAITING, *session.posargs)
    core = CONFORMANCE, "--core", "triton", "--one-in", "3", *only("triton")  # nox -s tests-triton takes all of it
    check(session, *core, *PARALLEL, *session.posargs, **INTERPRETER)
    session.log("Tests of the other languages, and long ones, are left out here. All tests: nox -s tests-all")


def install_for_tests(session: nox.Session) -> None:
    install(session, "test", "bench", "arrays", "types", *COMPILER, extras=("cpu", "triton", "ray", "report"))


@nox.session(name="tests-nightly")
def tests_nightly(session: nox.Session) -> None:
    """What takes long and seldom changes. And what measures, each process of which starts as it does for users."""
    install_for_tests(session)
    check(session, "tests", "-m", "nightly", *OTHERS, "--only", "torch,cpu", *WAITING, *session.posargs)
    check(session, "tests/measure", "tests/cli", "-m", "not nightly", "--cold", *WAITING, *session.posargs)


@nox.session(name="tests-all", venv_backend="none")
def tests_all(session: nox.Session) -> None:
    """All tests: those of each language in an environment of its own, too; whichever of them fail.

    Without a GPU a usual run takes a sample: of the contract what tests/shared/sampled.py says, of what is compiled
    ahead of time some problems, dtypes and architectures. ``nox -s tests-all -- --all`` takes all, in hours.
    """
    for name in ("tests", "tests-nightly", *(f"tests-{language}" for language in LANGUAGES)):
        session.notify(name)


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """The long tests, and each language's in an environment of its own: interpreted, emulated, compiled at length."""
    for language in ("nightly", *LANGUAGES, "warp"):
        session.notify(f"tests-{language}")


@nox.session(name="tests-warp")
def tests_warp(session: nox.Session) -> None:
    """The contract, for the backend in Warp that another package brings: on the host, and on a GPU if there is one."""
    install(session, "test")
    session.install("-c", str(CONSTRAINTS), "./examples/kernelzoo-warp")
    with session.chdir("examples/kernelzoo-warp"):
        check(session, *PARALLEL, *session.posargs)


# Python, torch and triton: each torch with the triton that its build for GPUs pins, other tritons with the torch of the
# constraints, and the oldest triton that is taken with the oldest torch. None of these runs unless it is named.
COMBINATIONS = (
    ("3.11", "2.13", "3.7"),
    ("3.11", "2.13", "3.6"),
    ("3.11", "2.13", "3.9"),
    ("3.12", "2.6", "3.2"),
    ("3.12", "2.6", "3.6"),
    ("3.12", "2.8", "3.4"),
    ("3.12", "2.11", "3.6"),
    ("3.12", "2.14", "3.8"),
    ("3.13", "2.13", "3.7"),
    ("3.13", "2.15", "3.9"),
)


@nox.session
@nox.parametrize("python,torch,triton", COMBINATIONS)
def portability(session: nox.Session, torch: str, triton: str) -> None:
    """What runs on the host with those versions, whatever pyproject.toml allows; the record is in bench/results/.

    A torch from PyPI brings CUDA: five GB, which are removed again.
    """
    extras = PROJECT["project"]["optional-dependencies"]
    cuda = "12" if tuple(map(int, torch.split("."))) < (2, 11) else "13"  # what torch on PyPI is built for
    languages = (*extras[f"cupy-cuda{cuda}"], *extras[f"numba-cuda{cuda}"])
    wanted = [*PROJECT["project"]["dependencies"], *extras["cpu"], *languages]
    # torch and triton are named here, and the toolkit is torch's.
    others = [word for word in wanted if not word.startswith(("torch", "triton", "cuda-toolkit"))]
    tools = [word for word in GROUPS(PROJECT, "test") if not word.startswith("playwright")]
    session.install("--no-cache-dir", f"torch=={torch}.*", *others, *tools)
    session.install("--no-deps", f"triton=={triton}.*", ".")  # which may be another than torch's own
    try:
        session.run("python", "tests/portability.py", "-o", "bench/results/portability.json", *session.posargs)
    finally:
        shutil.rmtree(session.virtualenv.location)


@nox.session
def architectures(session: nox.Session) -> None:
    """Every kernel compiled for every architecture that is described: an hour of one core, into bench/results/."""
    install(session, "test", extras=("triton", f"cupy-cuda{CUDA}", f"numba-cuda{CUDA}"))
    session.run("python", "tests/described/matrix.py", "-o", "bench/results/architectures.json", *session.posargs)


@nox.session(name="tests-torch")
def tests_torch(session: nox.Session) -> None:
    """The contract, for the torch backend; nothing but torch is installed."""
    install(session, "test")
    check(session, CONFORMANCE, "tests/torch", *only("torch"), *PARALLEL, *session.posargs)


@nox.session(name="tests-cpu")
def tests_cpu(session: nox.Session) -> None:
    """The contract, for the Numba host backend."""
    install(session, "test", extras=("cpu",))
    files = (CONFORMANCE, "tests/cpu", "tests/measure/test_gate.py")
    check(session, *files, *only("cpu"), "-k", "cpu", *PARALLEL, *session.posargs)


@nox.session(name="tests-triton")
def tests_triton(session: nox.Session) -> None:
    """The contract, for the Triton backend: interpreted, compiled ahead of time, and on a GPU if there is one."""
    install(session, "test", *COMPILER, extras=("triton",))
    conformance = (CONFORMANCE, *only("triton"), *session.posargs)
    interpreted = (f"tests/triton/test_{name}.py" for name in ("adversaries", "example_operations", "strips"))
    check(session, *interpreted, STORAGES, *conformance, *PARALLEL, **INTERPRETER)
    check(session, "tests/triton", *PARALLEL, *session.posargs)
    check(session, "tests/triton/test_ptx.py", *PARALLEL, *session.posargs, **{PTX_EMULATOR: "triton"})
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-gluon")
def tests_gluon(session: nox.Session) -> None:
    """The contract, for the Gluon backend: in Triton's interpreter less its layouts, compiled, and emulated."""
    install(session, "test", *COMPILER, extras=("gluon",))
    conformance = (CONFORMANCE, *only("gluon"), *session.posargs)
    check(session, "tests/gluon/test_interpreted.py", *conformance, *PARALLEL, **INTERPRETER)
    check(session, "tests/gluon", *PARALLEL, *session.posargs)
    run = (CONFORMANCE, "--core", "gluon", "-k", "gluon and test_conforms and float32")
    check(session, *run, *only("gluon"), *PARALLEL, **{PTX_EMULATOR: "triton"})
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-cutile")
def tests_cutile(session: nox.Session) -> None:
    """The contract, for the cuTile backend: evaluated on the host, compiled and emulated, and on a GPU."""
    install(session, "test", "disassembler", *COMPILER, extras=("cutile",))
    conformance = (CONFORMANCE, *only("cutile"), *session.posargs)
    check(session, *conformance, *PARALLEL, **EVALUATED)
    check(session, "tests/cutile", *PARALLEL, *session.posargs)
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-cute")
def tests_cute(session: nox.Session) -> None:
    """The contract, for the CuTe backend: compiled and emulated, and on a GPU if there is one."""
    install(session, "test", *COMPILER, extras=("cute",))
    conformance = (CONFORMANCE, *only("cute"), *session.posargs)
    check(session, *conformance, "--core", "cute", *PARALLEL, **{PTX_EMULATOR: "cute"})
    check(session, "tests/cute", *PARALLEL, *session.posargs)
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-helion")
def tests_helion(session: nox.Session) -> None:
    """The contract, for the Helion backend: what it makes, interpreted, compiled, emulated, and on a GPU."""
    install(session, "test", *COMPILER, extras=("helion",))
    conformance = (CONFORMANCE, *only("helion"), *session.posargs)
    check(session, *conformance, "tests/helion/test_parts.py", "--core", "helion", *PARALLEL, **INTERPRETER)
    check(session, "tests/helion", *PARALLEL, *session.posargs)
    run = (CONFORMANCE, "--core", "helion", "-k", "helion and test_conforms and float32 and auto")
    check(session, *run, "--kernelzoo-require", "helion", *PARALLEL, **{PTX_EMULATOR: "triton"})
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-cupy")
def tests_cupy(session: nox.Session) -> None:
    """The contract, for the CuPy backend: compiled and emulated, and on a GPU if there is one."""
    install(session, "test", "disassembler", *COMPILER, extras=(f"cupy-cuda{CUDA}",))
    conformance = (CONFORMANCE, *only("cupy"), *session.posargs)
    emulated = (f"tests/cupy/test_{name}.py" for name in ("ptx", "example_operations"))
    check(session, *emulated, STORAGES, *conformance, *PARALLEL, **{PTX_EMULATOR: "cupy"})
    check(session, "tests/cupy", *PARALLEL, *session.posargs)
    if GPU:
        check(session, *conformance)


@nox.session(name="tests-numba")
def tests_numba(session: nox.Session) -> None:
    """The contract, for the Numba backend: emulated, compiled ahead of time, and on a GPU if there is one."""
    install(session, "test", *COMPILER, extras=(f"numba-cuda{CUDA}",))
    check(session, "tests/numba", *PARALLEL, *session.posargs)
    emulated = "tests/numba/test_run_ptx.py", STORAGES, CONFORMANCE, *only("numba"), "--core", "numba"
    check(session, *emulated, *PARALLEL, *session.posargs, **{PTX_EMULATOR: "numba"})
    if GPU:
        check(session, CONFORMANCE, *only("numba"), *session.posargs)


def compare(session: nox.Session, *options: str) -> None:
    """Run the benches, then draw and print what they measured."""
    results = Path("out")
    results.mkdir(exist_ok=True)
    json = results / "results.json"
    pytest(session, "--benchmark-only", f"--benchmark-json={json}", *options, *session.posargs)
    session.run("python", "-m", "kernelzoo", "report", str(json), "-o", str(results))


@nox.session
def bench(session: nox.Session) -> None:
    """Compare all that this machine can run; the table and figures go to out/. Options go after ``--``.

    Without a GPU, the shapes are few and small; ``-- --shapes quick`` measures those of a GPU.
    """
    languages = ("triton", f"cupy-cuda{CUDA}", f"numba-cuda{CUDA}") if GPU else ()
    install(session, "bench", extras=("cpu", *languages, "report"))
    compare(session, *(() if GPU else ("--shapes", "host")))


@nox.session(name="bench-torch")
def bench_torch(session: nox.Session) -> None:
    """Torch alone: eager, compiled, naive."""
    install(session, "bench", extras=("report",))
    compare(session, "--backend=torch")


@nox.session(name="bench-cpu")
def bench_cpu(session: nox.Session) -> None:
    """The Numba host backend beside torch."""
    install(session, "bench", extras=("cpu", "report"))
    compare(session, "--backend=torch,cpu", "--device=cpu")


@nox.session(name="bench-triton")
def bench_triton(session: nox.Session) -> None:
    """The Triton backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here, and the interpreter is never timed")
    install(session, "bench", extras=("triton", "report"))
    compare(session, "--backend=torch,triton")


@nox.session(name="bench-gluon")
def bench_gluon(session: nox.Session) -> None:
    """The Gluon backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here, and the interpreter is never timed")
    install(session, "bench", extras=("gluon", "report"))
    compare(session, "--backend=torch,gluon")


@nox.session(name="bench-cutile")
def bench_cutile(session: nox.Session) -> None:
    """The cuTile backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here, and what is evaluated on the host is never timed")
    install(session, "bench", extras=("cutile", "report"))
    compare(session, "--backend=torch,cutile")


@nox.session(name="bench-cute")
def bench_cute(session: nox.Session) -> None:
    """The CuTe backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here, and what is emulated is never timed")
    install(session, "bench", extras=("cute", "report"))
    compare(session, "--backend=torch,cute")


@nox.session(name="bench-helion")
def bench_helion(session: nox.Session) -> None:
    """The Helion backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here, and the interpreter is never timed")
    install(session, "bench", extras=("helion", "report"))
    compare(session, "--backend=torch,helion")


@nox.session(name="bench-cupy")
def bench_cupy(session: nox.Session) -> None:
    """The CuPy backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here")
    install(session, "bench", extras=(f"cupy-cuda{CUDA}", "report"))
    compare(session, "--backend=torch,cupy")


@nox.session(name="bench-numba")
def bench_numba(session: nox.Session) -> None:
    """The Numba backend beside torch; without a GPU there is nothing to time."""
    if not GPU:
        session.skip("no GPU here")
    install(session, "bench", extras=(f"numba-cuda{CUDA}", "report"))
    compare(session, "--backend=torch,numba")


def check_style(session: nox.Session) -> None:
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


def check_types(session: nox.Session) -> None:
    names = (
        *("test_bench", "aa", "again", "carry_packages", "counters", "distributed", "energy", "gallery", "hints"),
        *("kills", "languages", "live", "other_sets", "pages", "ranked", "ranked_checks", "repeat_peers"),
        *("ranked_ways", "ranks_model", "readme", "records", "scaling", "several_gpus", "ten_bars", "training"),
        *("court", "helion_tuning", "jobs", "references", "releases", "score_and_lines"),
    )
    scripts = [f"bench/{name}.py" for name in names]
    session.run("mypy", "kernelzoo", *scripts, "noxfile.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: style and formatting."""
    session.install("-c", str(CONSTRAINTS), *GROUPS(PROJECT, "lint"))
    check_style(session)


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities in the pinned versions; that the service which knows them is away is said, and passes."""
    session.install("-c", str(CONSTRAINTS), *GROUPS(PROJECT, "audit"))
    session.run("python", ".ci/audit.py")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict, with every language installed, so that their types are seen where they have any."""
    install(session, "types", "test", "bench", extras=("cpu", "triton", "report"))
    check_types(session)


@nox.session
def gallery(session: nox.Session) -> None:
    """The explorers of our own results, into out/gallery/; ``docs`` after it puts them into the site."""
    install(session, extras=("report",))
    session.run("python", "bench/gallery.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documents as a site, into site/; the API reference is read from the source, and nothing is imported."""
    session.install("-c", str(CONSTRAINTS), *GROUPS(PROJECT, "docs"))
    session.run("python", ".ci/site.py")
    session.run("zensical", "build", "--strict", "-f", "mkdocs.yml", *session.posargs)


@nox.session
def dist(session: nox.Session) -> None:
    """The sdist and the wheel built of it, in dist/, with the checks that an index makes and a run of the wheel."""
    session.install("-c", str(CONSTRAINTS), *GROUPS(PROJECT, "dist"))
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "hatchling", "build", "-t", "sdist")
    (sdist,) = Path("dist").glob("*.tar.gz")
    session.run("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", str(sdist))
    session.run("twine", "check", "--strict", *map(str, Path("dist").iterdir()))
    (wheel,) = Path("dist").resolve().glob("*.whl")
    session.install("-c", str(CONSTRAINTS), str(wheel))
    with session.chdir(session.create_tmp()):  # away from the sources
        session.run("kernelzoo", "verify", "torch/min/eager", "--dtype", "float32")
