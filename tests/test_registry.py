"""The registry: listing, loading, registering, and the errors of all three."""

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from registered import forget
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelzoo
from kernelzoo import operations, packages
from kernelzoo.errors import InputTypeError, LaunchError
from kernelzoo.launch import Launch
from kernelzoo.packages import BUILT_IN

VARIANTS = {
    ("torch", "softmax"): {"auto", "eager", "compile", "naive", "renormalized"},
    ("torch", "min"): {"auto", "eager", "compile"},
    ("cpu", "softmax"): {"auto", "fused", "online"},
    ("cpu", "min"): {"auto", "rows", "split"},
}


@pytest.fixture
def scratch() -> Iterator[str]:
    """A backend name whose registrations are forgotten afterwards."""
    yield "scratch"
    forget("scratch")


@pytest.mark.parametrize("module", ["kernelzoo", "kernelzoo.registry", "kernelzoo.calls.backend"])
def test_examples_in_docstrings_are_right(module: str) -> None:
    try:
        failed, tried = doctest.testmod(importlib.import_module(module))
        assert tried and not failed
    finally:
        forget("mine")


@pytest.mark.parametrize(
    ("returned", "told"), [(None, "returned None"), (torch.ones(2), "returned a torch.Tensor"), (3, "returned an int")]
)
def test_a_bind_must_return_a_function(scratch: str, returned: object, told: str) -> None:
    """Whether the operation adds copies of its own or not, and whoever calls it: a user, a benchmark or a chooser."""
    kernelzoo.register(scratch, "min", "bad")(lambda x, out: returned)
    kernelzoo.chooser(scratch, "min", "auto")(lambda x, out: "bad")
    words = rf"scratch/min/bad {told}, not a launch; return a function that runs the kernel"
    for x in (torch.ones(2, 3), torch.ones(3, 4, 5, 6).permute(3, 1, 0, 2)[:, ::2]):
        for variant in ("bad", "auto"):
            with pytest.raises(LaunchError, match=words):
                kernelzoo.get(scratch).min(x, variant=variant)
            implementation = kernelzoo.implementation(f"{scratch}/min/{variant}")
            with pytest.raises(LaunchError, match=words):
                implementation.launch(x, out=torch.empty(x.shape[:-1]))


@pytest.mark.parametrize(("backend", "op"), VARIANTS)
def test_the_zoo_holds_every_variant(backend: str, op: str) -> None:
    """As it is listed and, of what needs no other package, as it is loaded."""
    assert {i.variant for i in kernelzoo.implementations(backend, op)} == VARIANTS[backend, op]
    assert backend != "torch" or {*kernelzoo.get("torch").variants(op)} == VARIANTS[backend, op]


def test_every_implementation_says_what_it_is() -> None:
    """In whole sentences, on one line: a docstring's first paragraph may have several."""
    for implementation in kernelzoo.implementations():
        assert implementation.summary, implementation.id
        if implementation.backend in BUILT_IN:
            assert implementation.summary.endswith(".") and "\n" not in implementation.summary, implementation.id
        assert kernelzoo.implementation(implementation.id) == implementation
        assert implementation.id == f"{implementation.backend}/{implementation.op}/{implementation.variant}"


def test_unknown_names_list_the_known() -> None:
    known = ", ".join(kernelzoo.backends())
    with pytest.raises(kernelzoo.UnknownNameError, match=f"no backend 'cuda'; known: {known}"):
        kernelzoo.get("cuda")
    with pytest.raises(
        LookupError, match="no torch softmax variant 'fast'; known: auto, compile, eager, naive, renormalized"
    ):
        kernelzoo.get("torch").softmax(torch.ones(2), variant="fast")
    with pytest.raises(ValueError, match=f"known: {', '.join(sorted(kernelzoo.operations.OPERATIONS))}"):
        kernelzoo.implementations(op="max")
    with pytest.raises(kernelzoo.UnknownNameError, match="no backend"):
        kernelzoo.implementations("cuda")
    with pytest.raises(kernelzoo.UnknownNameError, match="torch/softmax/eager"):
        kernelzoo.implementation("torch/softmax/fast")


def test_register_and_call_ones_own(scratch: str) -> None:
    @kernelzoo.register(scratch, "softmax", "mine")
    def mine(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """One's own."""
        return lambda: void(torch.softmax(x, 1, out=out) if out.is_contiguous() else out.copy_(torch.softmax(x, 1)))

    def void(_: object) -> None: ...

    assert [i.id for i in kernelzoo.implementations(scratch)] == ["scratch/softmax/mine"]
    x = torch.randn(3, 4, 5)
    for dim in (0, 1, 2):
        torch.testing.assert_close(kernelzoo.get(scratch).softmax(x, dim, variant="mine"), torch.softmax(x, dim))
    torch.testing.assert_close(kernelzoo.get(scratch).softmax(x), torch.softmax(x, -1))  # it has one, which is taken
    with pytest.raises(kernelzoo.UnknownNameError, match="known: mine"):
        kernelzoo.get(scratch).softmax(x, variant="other")

    @kernelzoo.register(scratch, "softmax", "second")
    def second(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return mine(x, out)

    with pytest.raises(kernelzoo.UnknownNameError, match="known: mine, second"):
        kernelzoo.get(scratch).softmax(x)  # it has no auto, and says what it has

    @kernelzoo.register(scratch, "min", "auto")
    def smallest(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """Registered after the backend was loaded, and found all the same."""
        return lambda: void(torch.amin(x, 1, out=out))

    torch.testing.assert_close(kernelzoo.get(scratch).min(x, 1), x.amin(1))


def test_register_refuses(scratch: str) -> None:
    def one(x: torch.Tensor, out: torch.Tensor) -> Launch:
        raise NotImplementedError

    def two(x: torch.Tensor, out: torch.Tensor) -> Launch:
        raise NotImplementedError

    assert kernelzoo.register(scratch, "min", "a")(one) is one
    assert kernelzoo.register(scratch, "min", "a")(one) is one  # a module imported again
    with pytest.raises(kernelzoo.RegistrationError, match="scratch/min/a is taken by"):
        kernelzoo.register(scratch, "min", "a")(two)
    with pytest.raises(kernelzoo.RegistrationError, match="identifier"):
        kernelzoo.register("a/b", "min", "a")
    with pytest.raises(kernelzoo.UnknownNameError, match="operation"):
        kernelzoo.register(scratch, "max", "a")


def test_entry_point_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package laid out like ours is listed without being imported, and reports why it can't run."""
    package = tmp_path / "guestzoo"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from kernelzoo.registry import require\n"
        "def probe():\n"
        "    require('guest', 'a_language_nobody_has', 'install it with: pip install it')\n"
        "    return ('cpu',)\n"
    )
    (package / "softmax.py").write_text(
        "import a_language_nobody_has\nfrom kernelzoo import register\n"
        "@register('guest', 'softmax', 'only')\ndef only(x, out):\n    '''The only one.'''\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(packages.backend_packages(), "guest", "guestzoo")
    (found,) = kernelzoo.implementations("guest")
    assert (found.id, found.summary) == ("guest/softmax/only", "The only one.")
    with pytest.raises(kernelzoo.BackendUnavailableError) as caught:
        kernelzoo.get("guest")
    assert "a_language_nobody_has' is not installed; install it with: pip install it" in str(caught.value)
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, RuntimeError)


def test_best_backend_for_the_device() -> None:
    x = torch.randn(5, 7)
    torch.testing.assert_close(kernelzoo.softmax(x), torch.softmax(x, -1))
    torch.testing.assert_close(kernelzoo.min(x, 0, keepdim=True), x.amin(0, keepdim=True))
    with FakeTensorMode(), pytest.raises(kernelzoo.DeviceError, match="on mps"):
        kernelzoo.softmax(torch.empty(3, device="mps"))
    with pytest.raises(TypeError, match=r"torch\.Tensor or an array with .*, got builtins\.list"):
        kernelzoo.softmax([1.0])  # type: ignore[arg-type]
    like = SimpleNamespace(device=torch.device("cpu"))
    with pytest.raises(TypeError, match=r"torch\.Tensor or an array with .*, got types\.SimpleNamespace"):
        kernelzoo.softmax(like)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_a_tensor_without_memory_is_refused_on_a_gpu_too(scratch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated call looks at the tensor's address first, which a sparse one has none of."""
    kernelzoo.register(scratch, "min", "auto")(lambda x, out: lambda: None)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda x: 0)
    monkeypatch.setattr(kernelzoo.get(scratch)._cache, "_on_host", False)
    for x in (torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr(), torch._efficientzerotensor((2, 2))):
        with pytest.raises(InputTypeError, match="dense"):
            kernelzoo.get(scratch).min(x)


def test_forms_of_ours_are_found_without_parsing_all(tmp_path: Path) -> None:
    """The same ones as by Python's own parser, which takes what is written in another way."""
    files = [path for name in BUILT_IN.values() for path in Path(packages._folders(name)[0]).rglob("*.py")]
    ours = '@register("triton", "min", "rows")\ndef rows(x: Tensor) -> Launch:\n    """By rows.\n\n    More."""\n'
    for number, other in enumerate(
        (
            ours,
            ours.replace("@register", "@kernelzoo.register"),
            ours.replace('    """By', '    y = x\n    """By'),
            ours.replace("By", "\\x42y"),
            ours.replace('"""', "'''"),
            '@register("triton", "min", "rows")\ndef rows(x: Tensor) -> Launch:\n    return x\n',
        )
    ):
        files.append(tmp_path / f"form_{number}.py")
        files[-1].write_text(other)
    known = tuple(operations.BUILT_IN)
    listed = {path: list(packages._registered_functions(path, known, ours=True)) for path in files}
    assert listed == {path: list(packages._registered_functions(path, known)) for path in files}
    assert sum(map(len, listed.values())) > 150 and min(len(listed[path]) for path in files[-6:]) == 1
    assert listed[files[-6]][0].summary == "By rows."
