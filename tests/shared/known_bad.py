"""Kernels that are wrong, each in a way that a check could miss: the gate has to catch every one of them.

Each is what an honest mistake or a dishonest benchmark looks like, written in torch so that it runs anywhere; those of
a GPU are marked so. What it says is what the gate must say of it.
"""

import functools
import itertools
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernelzoo.launch import Bind, Launch, void
from kernelzoo.measure import Problem

Tensor = torch.Tensor

PROBLEMS = {"softmax": Problem("softmax", (64, 33), "float32"), "min": Problem("min", (64, 33), "float32")}

LEFT_OUT = r"\d+ of \d+ launches did not write out"
FRESH = "right at first, wrong on fresh data in the same memory"


@dataclass(frozen=True)
class Bad:
    """A wrong kernel, and who says what of it, as regular expressions."""

    name: str
    op: str
    bind: Bind
    problem: Problem
    gate: str = ""
    """What the gate says before it admits; "" where it can't know."""
    timed: str = ""
    """What the gate says of it after it was timed, where it was admitted."""
    suite: bool = False
    """Whether the conformance suite catches it too."""
    passes: Problem | None = None
    """A problem on which it is right."""
    gpu: bool = False

    def __str__(self) -> str:
        return self.name


KNOWN_BAD: list[Bad] = []

threads: list[threading.Thread] = []
"""Those that some of these leave running; whoever runs them lets them go on in the end, and waits for them."""

go_on = threading.Event()


def bad(op: str, gate: str = "", problem: Problem | None = None, **said: Any) -> Callable[[Bind], Bind]:
    """Add a bind to the set; what is said of it: the other fields of :class:`Bad`."""

    def decorate(bind: Bind) -> Bind:
        name = bind.__name__.replace("_", " ")
        KNOWN_BAD.append(Bad(name, op, bind, problem or PROBLEMS[op], gate, **said))
        return bind

    return decorate


def wrong(*given: Any, **named: Any) -> Callable[[Callable[[Tensor, Tensor], object]], Bind]:
    """Add the bind whose launch does this, and returns nothing."""

    def decorate(work: Callable[[Tensor, Tensor], object]) -> Bind:
        @functools.wraps(work)
        def bind(x: Tensor, out: Tensor) -> Launch:
            return lambda: void(work(x, out))

        return bad(*given, **named)(bind)

    return decorate


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


# What is plainly wrong


@wrong("softmax", r"softmax: \d+ of 2112 elements wrong; first at \(0, \d\): got 0.0", suite=True)
def zeros(x: Tensor, out: Tensor) -> None:
    out.zero_()


@wrong("softmax", r"elements wrong; first at \(0, 0\): got 0.0303", suite=True)
def a_constant(x: Tensor, out: Tensor) -> None:
    """One that every row adds up to 1 with."""
    out.fill_(1 / x.size(1))


@wrong("softmax", r"2112 of 2112 elements wrong; first at \(0, 0\)", suite=True)
def shifted_by_a_row(x: Tensor, out: Tensor) -> None:
    out.copy_(softmax(x).roll(1, 0))


@bad("softmax", LEFT_OUT, suite=True)
def nothing(x: Tensor, out: Tensor) -> Launch:
    return lambda: None


@wrong("softmax", r"1 of 2112 elements wrong; first at \(63, 32\): got -\d", suite=True)
def all_but_the_last_element(x: Tensor, out: Tensor) -> None:
    out.view(-1)[:-1].copy_(softmax(x).view(-1)[:-1])


@wrong("softmax", r"elements wrong; first at \(0, \d\)", suite=True, passes=Problem("softmax", (64, 64), "float32"))
def right_at_one_size_and_wrong_at_the_next(x: Tensor, out: Tensor) -> None:
    """Takes rows by 32 elements, and forgets the rest."""
    whole = x.size(1) // 32 * 32
    out.zero_()[:, :whole].copy_(softmax(x[:, :whole]))


@wrong("softmax", r"elements wrong; first at \(0, 0\)", suite=True)
def the_wrong_dtype(x: Tensor, out: Tensor) -> None:
    """Right values, in a narrower format than out says."""
    out.view(torch.float16)[..., :1].copy_(softmax(x))


@wrong("softmax", r"elements wrong; first at \(0, 1\)", suite=True)
def the_wrong_strides(x: Tensor, out: Tensor) -> None:
    """Right values, column by column."""
    rows, columns, _ = x.shape
    out.as_strided((rows, columns, 1), (1, rows, 1)).copy_(softmax(x))


@wrong("min", LEFT_OUT, suite=True)
def skips_the_fill_of_an_atomic_minimum(x: Tensor, out: Tensor) -> None:
    torch.minimum(out, x.amin(1), out=out)


# Special values


@wrong(
    "min", rf"{FRESH}, in rows of a NaN / a NaN with its sign bit set, at the start / .*NaN alone.*: min: ", suite=True
)
def drops_nan(x: Tensor, out: Tensor) -> None:
    out.copy_(x.where(~x.isnan(), torch.inf).amin(1))


@wrong("min", rf"{FRESH}, in rows of a NaN with its sign bit set, at the start: min: 1 of 64 ", suite=True)
def drops_nan_by_its_sign(x: Tensor, out: Tensor) -> None:
    """As an atomic minimum of the bits would."""
    out.copy_(x.where(~(x.isnan() & x.signbit()), torch.inf).amin(1))


@wrong("softmax", rf"{FRESH}, in rows of \+inf / -inf alone / \+inf alone: softmax: ", suite=True)
def drops_the_rules_of_infinity(x: Tensor, out: Tensor) -> None:
    out.copy_(softmax(x.clamp(-1e30, 1e30)))


@wrong("softmax", rf"{FRESH}, in rows of -inf in the front half(?! / a NaN).*: softmax: ", suite=True)
def online_sum_that_starts_at_minus_infinity(x: Tensor, out: Tensor) -> None:
    """Exp(-inf - -inf) makes a NaN of a block that holds nothing else, in a row that is legal."""
    half = max(1, x.size(1) // 2)
    parts = [part for part in (x[:, :half], x[:, half:]) if part.size(1)]
    maxima = [part.amax(1, keepdim=True) for part in parts]
    sums = [(part - most).exp().sum(1, keepdim=True) for part, most in zip(parts, maxima, strict=True)]
    most = x.amax(1, keepdim=True)
    total = sum(s * (m - most).exp() for s, m in zip(sums, maxima, strict=True))
    out.copy_((x - most).exp() / total)


# Memory


@wrong("softmax", "the input was changed", suite=True)
def changes_its_input(x: Tensor, out: Tensor) -> None:
    """In a way that no result tells of."""
    x.sub_(x.amax(1, keepdim=True))
    out.copy_(softmax(x))


@wrong("min", "the input was changed while it held fresh data", suite=True)
def tidies_its_input_up(x: Tensor, out: Tensor) -> None:
    """A zero is a zero, but no other bits than it was given."""
    out.copy_(x.add_(0.0).amin(1))


@bad("softmax", r"wrote outside its output: \d+ of the bytes beside \w+ have changed")
def writes_past_its_output(x: Tensor, out: Tensor) -> Launch:
    """By up to four elements, as far as there is memory, so that it harms nobody here."""
    room = out.untyped_storage().nbytes() // out.element_size() - out.storage_offset() - out.numel()
    past = out.as_strided((min(room, 4),), (1,), out.storage_offset() + out.numel())

    def launch() -> None:
        out.copy_(softmax(x))
        past.zero_()

    return launch


@bad("min", "min: 1 of 64 elements wrong", suite=True)
def reads_past_its_input(x: Tensor, out: Tensor) -> Launch:
    """A mask too few in the last block of the last row."""
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset() - x.numel()
    past = x.as_strided((min(room, 256),), (1,), x.storage_offset() + x.numel())

    def launch() -> None:
        out.copy_(x.amin(1))
        if past.numel():
            out[-1] = torch.minimum(out[-1], past.amin())

    return launch


@bad("min", suite=True)
def offsets_of_32_bits(x: Tensor, out: Tensor) -> Launch:
    """Only tensors past 2^31 elements show it, which the suite has."""

    def wrapped(offset: int) -> int:
        return (offset + 2**31) % 2**32 - 2**31

    def launch() -> None:
        outer, n, inner = x.shape
        places = [wrapped(o * x.stride(0) + i * x.stride(2)) for o in range(outer) for i in range(inner)]
        for place, result in zip(places, out.view(-1) if out.is_contiguous() else out.flatten(), strict=True):
            steps = [wrapped(j * x.stride(1)) for j in range(n)]
            result.copy_(torch.stack([x.as_strided((), (), x.storage_offset() + place + s) for s in steps]).amin())

    return launch


# Tensors that are not what they were


@bad("softmax", r"a launch writes into out and returns None; this one returned <class 'torch.Tensor'>", suite=True)
def returns_a_tensor(x: Tensor, out: Tensor) -> Launch:
    return lambda: softmax(x)  # type: ignore[return-value]  # which is what is wrong with it


@wrong("softmax", LEFT_OUT)
def swaps_the_data_of_out(x: Tensor, out: Tensor) -> None:
    """The memory that out had is never written, and no kernel's time is needed for it."""
    base(out).data = softmax(x)[:, :, 0]


@wrong("softmax", LEFT_OUT, suite=True)
def sets_out_to_another_tensor(x: Tensor, out: Tensor) -> None:
    base(out).set_(softmax(x)[:, :, 0].t().contiguous().t())


@wrong("softmax", LEFT_OUT, suite=True)
def sets_out_to_another_dtype(x: Tensor, out: Tensor) -> None:
    base(out).data = softmax(x.double())[:, :, 0]


@bad("softmax", LEFT_OUT)
def makes_out_lazy(x: Tensor, out: Tensor) -> Launch:
    """Computes when somebody looks, which no clock does."""

    class Lazy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                out.copy_(softmax(x))
                return function(*args, **(kwargs or {}))

    def launch() -> None:
        base(out).__class__ = Lazy

    return launch


# What was right once


@bad("softmax", LEFT_OUT, suite=True)
def works_in_the_bind(x: Tensor, out: Tensor) -> Launch:
    """On memory that is the user's own, so that a call gets what it asks for."""
    out.copy_(softmax(x))
    return lambda: None


@bad("softmax", LEFT_OUT)
def serves_the_first_set_alone(x: Tensor, out: Tensor) -> Launch:
    if _bound.setdefault(x.shape, x.data_ptr()) == x.data_ptr():
        return lambda: void(out.copy_(softmax(x)))
    return lambda: None


_bound: dict[torch.Size, int] = {}


@bad("softmax", LEFT_OUT, suite=True)
def right_the_first_time_alone(x: Tensor, out: Tensor) -> Launch:
    return works_so_often(1, x, out)


@bad("softmax", rf"{FRESH}.*: softmax: 2[01]\d\d of 2112 ")
def keeps_its_last_result(x: Tensor, out: Tensor) -> Launch:
    kept: list[Tensor] = []

    def launch() -> None:
        if not kept:
            kept.append(softmax(x))
        out.copy_(kept[0])

    return launch


@bad("softmax", r"wrong after the one element at \(\d+, \d+\) was changed: softmax: 33 of 33 ")
def keeps_its_last_result_by_a_sample_of_x(x: Tensor, out: Tensor) -> Launch:
    kept: dict[tuple[float, ...], Tensor] = {}

    def launch() -> None:
        sample = tuple(x.reshape(-1)[::500].tolist())
        if sample not in kept:
            kept[sample] = softmax(x)
        out.copy_(kept[sample])

    return launch


@wrong("softmax", LEFT_OUT, suite=True)
def works_where_it_finds_the_known_poison(x: Tensor, out: Tensor) -> None:
    """The constant that a gate before this one filled its outputs with."""
    if bool((out == -7).all()):
        out.copy_(softmax(x))


@bad("softmax", timed=LEFT_OUT)
def wears_out(x: Tensor, out: Tensor) -> Launch:
    """A workspace that is not reset, say: right for as long as anyone checks."""
    return works_so_often(100, x, out)


def works_so_often(times: int, x: Tensor, out: Tensor) -> Launch:
    """A launch that does nothing after so many."""
    launches = itertools.count(1)

    def launch() -> None:
        if next(launches) <= times:
            out.copy_(softmax(x))

    return launch


# What is not done when the launch returns, or not in its turn


@wrong("softmax", LEFT_OUT, suite=True)
def waits_for_one_of_two_threads(x: Tensor, out: Tensor) -> None:
    """The host's way of skipping a barrier."""
    half = x.size(0) // 2
    thread = threading.Thread(target=lambda: out[:half].copy_(softmax(x[:half])))
    thread.start()
    later(lambda: out[half:].copy_(softmax(x[half:])))
    thread.join()


@bad("softmax", LEFT_OUT, suite=True)
def returns_before_it_is_done(x: Tensor, out: Tensor) -> Launch:
    return lambda: later(lambda: out.copy_(softmax(x)))


@bad("softmax", f"{FRESH}: softmax: ", gpu=True)
def runs_on_a_stream_of_its_own(x: Tensor, out: Tensor) -> Launch:
    """Right whenever somebody synchronises before and after."""
    side: Any = torch.cuda.Stream(x.device)

    def launch() -> None:
        with torch.cuda.stream(side):
            out.copy_(softmax(x))

    return launch


@bad("softmax", f"{FRESH}: softmax: ", gpu=True)
def lets_nobody_wait_for_its_stream(x: Tensor, out: Tensor) -> Launch:
    """Waits for the caller's stream, as it should, and the caller's does not wait for it."""
    side: Any = torch.cuda.Stream(x.device)

    def launch() -> None:
        side.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # 1 ms at 2 GHz: a kernel that takes its time
            out.copy_(softmax(x))

    return launch


@wrong("softmax", "under another current stream", gpu=True)
def runs_on_the_default_stream(x: Tensor, out: Tensor) -> None:
    """Whatever the current one is."""
    with torch.cuda.stream(torch.cuda.default_stream(x.device)):
        out.copy_(softmax(x))


ROWS_OF_64 = r"""
extern "C" __global__ void minimum(const float* x, float* out) {
    __shared__ float partial[2];
    if (threadIdx.x < 2) partial[threadIdx.x] = __int_as_float(0x7f800000);
    __syncthreads();
    long long start = clock64();
    if (threadIdx.x >= 32) while (clock64() - start < 100000) {}  // the second warp comes 50 us late
    float least = x[blockIdx.x * 64ll + threadIdx.x];
    for (int step = 16; step; step /= 2) {
        float other = __shfl_down_sync(0xffffffffu, least, step);
        if (!(least <= other) && least == least) least = other;  // a NaN on either side stays
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = least;
    BARRIER
    if (threadIdx.x == 0) {
        float other = partial[1];
        out[blockIdx.x] = !(least <= other) && least == least ? other : least;
    }
}
"""


def minimum_of_64(x: Tensor, out: Tensor, barrier: str) -> Launch:
    """Minimum of rows of 64 elements in CUDA C++, a thread each, with or without its barrier."""
    import cupy

    kernel = cupy.RawKernel(ROWS_OF_64.replace("BARRIER", barrier), "minimum", options=("-std=c++17",))
    arrays = cupy.asarray(x), cupy.asarray(out)

    def launch() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # there is no other way yet to name the default stream
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(x.device).cuda_stream)
        with stream:
            kernel((x.size(0),), (64,), arrays)

    return launch


@bad("min", r"min: \d+ of 64 elements wrong", problem=Problem("min", (64, 64), "float32"), gpu=True)
def skips_a_barrier(x: Tensor, out: Tensor) -> Launch:
    return minimum_of_64(x, out, "")


def later(work: Callable[[], object]) -> None:
    """Do something in another thread, when everybody has looked."""

    def run() -> None:
        go_on.wait()
        work()

    threads.append(threading.Thread(target=run))
    threads[-1].start()


def base(view: Tensor) -> Any:
    """The tensor that somebody else holds of the same memory."""
    found: Tensor | None = view._base
    assert found is not None
    return found
