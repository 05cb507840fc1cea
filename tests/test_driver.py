"""The one launch of CUDA C's and Numba's kernels: what reaches the driver, by one that writes down what it gets."""

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kernelzoo.device import ARCHITECTURES
from kernelzoo.kernels.shared import driver
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters, parameter_words
from kernelzoo.kernels.shared.split import split


class Library:
    """libcuda as far as a launch asks it, and the launches that it got."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.asked: list[tuple[int, int]] = []
        self.statuses: list[int] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self.cuLaunchKernelEx = kind(self._launch)

    def _launch(self, config: int, function: int, parameters: int, _: object) -> int:
        c = driver._Config.from_address(config)
        attributes = (driver._Attribute * c.count).from_address(c.attributes) if c.count else ()
        pointers = (ctypes.c_void_p * 3).from_address(parameters)
        told = {"function": function, "grid": tuple(c.grid), "block": tuple(c.block), "shared": c.shared_bytes}
        told["attributes"] = {a.id: tuple(a.value)[:3] for a in attributes}
        told["values"] = [ctypes.c_uint64.from_address(pointer or 0).value for pointer in pointers]
        self.launches.append(told)
        return self.statuses.pop() if self.statuses else 0

    def cuFuncGetAttribute(self, granted: Any, attribute: int, function: Any) -> int:  # noqa: N802
        granted._obj.value = 47 * 1024
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:  # noqa: N802
        self.asked.append((attribute, value))
        return 0

    def cuGetErrorString(self, status: int, text: Any) -> int:  # noqa: N802
        text._obj.value = b"the driver's words"
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks: Any, *_: object) -> int:  # noqa: N802
        blocks._obj.value = 3
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setattr(driver, "current_stream", lambda index: 7)
    monkeypatch.setattr(driver, "make_gpu_current", lambda index: SimpleNamespace(__enter__=None))
    return made


H200, A100 = ARCHITECTURES["sm_90"], ARCHITECTURES["sm_80"]


def test_a_launch_says_all_that_its_shape_says(library: Library) -> None:
    at = driver.make_launcher(5, LaunchShape(264, 128, 1000, 4, True), Parameters.from_words(0, 0, 42), H200)
    at(16, 32)
    (launch,) = library.launches
    assert launch["function"] == 5 and launch["grid"] == (264, 1, 1) and launch["block"] == (128, 1, 1)
    assert launch["shared"] == 1000 and launch["values"] == [16, 32, 42]
    assert launch["attributes"] == {2: (1, 0, 0), 4: (4, 1, 1), 6: (1, 0, 0)}
    driver.make_launcher(5, LaunchShape(264, 128), Parameters.from_words(0, 0, 42), A100)(48, 64)
    assert library.launches[-1]["attributes"] == {} and library.launches[-1]["values"] == [48, 64, 42]


def test_a_launch_of_any_number_of_tensors_keeps_what_follows_them(library: Library) -> None:
    at = driver.make_launcher(5, LaunchShape(264, 128), Parameters.from_words(0, 0, 0), H200)
    at(16, 32, 48)
    at(64)
    assert [launch["values"] for launch in library.launches] == [[16, 32, 48], [64, 32, 48]]


def test_a_grid_past_its_first_axis_gets_a_second(library: Library) -> None:
    for blocks in (2**31 - 1, 2**31):
        driver.make_launcher(1, LaunchShape(blocks, 32), Parameters.from_words(0, 0, 0), H200)(0, 0)
    assert [launch["grid"] for launch in library.launches] == [(2**31 - 1, 1, 1), (2**30, 2, 1)]


def test_parameters_keep_their_bytes_and_places() -> None:
    struct = bytes(range(24))
    parameters = parameter_words([struct, (7).to_bytes(4, "little"), (8).to_bytes(8, "little")])
    assert parameters.starts == (0, 3, 4) and parameters.words[3:] == (7, 8)
    assert b"".join(word.to_bytes(8, "little") for word in parameters.words[:3]) == struct


def test_what_is_not_granted_unasked_is_asked_for(library: Library) -> None:
    driver.raise_launch_limits(1, LaunchShape(16, 32, 47 * 1024, 8))
    assert library.asked == []
    driver.raise_launch_limits(1, LaunchShape(16, 32, 47 * 1024 + 1, 16))
    assert library.asked == [(8, 47 * 1024 + 1), (14, 1)]


def test_a_thread_without_a_context_gets_one_and_a_failure_is_an_error(library, monkeypatch) -> None:
    from contextlib import nullcontext

    attached: list[int] = []
    monkeypatch.setattr(driver, "make_gpu_current", lambda index: nullcontext(attached.append(index)))
    at = driver.make_launcher(1, LaunchShape(1, 32), Parameters.from_words(0, 0, 0), H200)
    library.statuses = [201]
    at(1, 2)
    assert len(library.launches) == 2 and attached == [H200.index]
    library.statuses = [700, 700]
    with pytest.raises(RuntimeError, match="the driver's words"):
        at(1, 2)


def test_threads_that_launch_at_once_have_parameters_of_their_own(library: Library) -> None:
    at = driver.make_launcher(1, LaunchShape(1, 32), Parameters.from_words(0, 0, 0), H200)
    threads = [threading.Thread(target=lambda n=n: [at(n, n + 1) for _ in range(200)]) for n in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(library.launches) == 600
    assert all(launch["values"][1] == launch["values"][0] + 1 for launch in library.launches)


def test_blocks_at_once(library: Library) -> None:
    assert driver.max_resident_blocks(1, 256, 0, H200) == 3 * 132


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("n", [1, 5, 1000, 262147])
@pytest.mark.parametrize("parts", [1, 3, 64])
def test_a_split_covers_a_row_and_leaves_no_part_empty(rows: int, n: int, parts: int) -> None:
    found = split(rows, n, parts, 4, 132)
    assert found.parts * found.span >= n > (found.parts - 1) * found.span
    assert found.span % 4 == 0 and found.parts <= parts
    assert 1 <= found.groups <= rows and found.blocks == found.groups * found.parts
