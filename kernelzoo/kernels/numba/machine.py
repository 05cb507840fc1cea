"""Intrinsics for what Numba lacks: 16-byte vectors, half precision, minima that keep NaN, and atomics.

Each compiles to a few GPU instructions. Pointers are raw addresses (``CPointer``). Offsets count elements in 64 bits.

Half precision is moved as 16-bit integers, and one instruction converts an element. Numba has a bfloat16 of its own,
but each of its operations calls a C++ shim, which NVRTC compiles at every compilation.
"""

from collections.abc import Callable
from functools import cache, reduce
from inspect import signature
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, is_packed

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
LETTERS = {I16: "h", I32: "r", I64: "l", F32: "f", F64: "d"}
"""The constraint of inline PTX for a register of each type."""
SUFFIXES = {I32: "b32", I64: "b64", F32: "f32", F64: "f64"}
"""The suffix of PTX instructions that move each type."""


def make_intrinsic(typed: Callable[..., Any], build: Callable[..., Any]) -> Any:
    """Return an intrinsic. ``typed`` returns its signature for Numba types. ``build(builder, ...)`` emits its LLVM IR.

    ``build`` receives an array as a pointer to its first element."""

    def resolve(*kinds: Any) -> Any:
        def codegen(context: Any, builder: Any, made: Any, values: Any) -> Any:
            pairs = zip(made.args, values, strict=True)
            proxy = cgutils.create_struct_proxy
            arguments = (proxy(k)(context, builder, v).data if isinstance(k, types.Array) else v for k, v in pairs)
            result = build(builder, *arguments)
            return context.get_dummy_value() if result is None else result

        return typed(*kinds), codegen

    def typing(_: Any, *kinds: Any) -> Any:
        return resolve(*kinds)

    own = signature(typing)
    first, _ = own.parameters.values()
    typing.__signature__ = own.replace(parameters=[first, *signature(typed).parameters.values()])  # type: ignore[attr-defined]
    return intrinsic(typing)


def asm(
    builder: Any, result: Any, code: str, *operands: Any, effect: bool = False, memory: bool = False, tied: int = 0
) -> Any:
    """Emit inline PTX. ``result`` is the type that it returns: of one register, a struct of several, or None.

    ``effect``: whether it has side effects. ``memory``: whether it also orders other memory accesses. The last ``tied``
    operands and the results share registers."""
    results = [] if result is None else getattr(result, "elements", [result])
    letters = [LETTERS[operand.type] for operand in operands[: len(operands) - tied]]
    constraints = [f"={LETTERS[kind]}" for kind in results] + letters + [str(number) for number in range(tied)]
    function = ir.FunctionType(result or ir.VoidType(), [operand.type for operand in operands])
    effect = effect or memory or result is None
    made = builder.asm(function, code, ",".join(constraints + ["~{memory}"] * memory), list(operands), effect)
    return None if result is None else made


def shared_address(builder: Any, array: Any, i: Any) -> Any:
    """Return the address of ``array[i]`` in the block's shared memory."""
    element = builder.gep(array, [i])
    return builder.ptrtoint(builder.addrspacecast(element, element.type.pointee.as_pointer(3)), I32)


def _address(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.ptrtoint(builder.gep(pointer, [offset]), I64)


def _element_pointer(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _register_pointers(builder: Any, registers: Any, first: Any, count: int) -> list[Any]:
    return [builder.gep(registers, [builder.add(first, first.type(j))]) for j in range(count)]


def _widen(builder: Any, bits: Any, dtype: str) -> Any:
    """Convert the bits of a stored element, an integer, to the accumulator type."""
    if dtype == "bfloat16":
        return builder.bitcast(builder.shl(builder.zext(bits, I32), I32(16)), F32)
    if dtype == "float16":
        return builder.fpext(builder.bitcast(bits, F16), F32)
    if dtype in ("float32", "float64"):
        return builder.bitcast(bits, F32 if dtype == "float32" else F64)
    if dtype in ("bool", "uint8"):
        return builder.zext(bits, I32)
    return builder.sext(bits, I32) if bits.type.width < 32 else bits


def _narrow(builder: Any, value: Any, dtype: str) -> Any:
    """Convert a number to the bits of a stored element, rounded to nearest even: the inverse of ``_widen``."""
    if dtype in ("float16", "bfloat16"):
        return asm(builder, I16, f"cvt.rn.{'f16' if dtype == 'float16' else 'bf16'}.f32 $0, $1;", value)
    stored = ir.IntType(STORAGE[dtype].bitwidth)
    if isinstance(value.type, ir.IntType):
        return builder.trunc(value, stored) if value.type.width > stored.width else value
    return builder.bitcast(value, stored)


# --- Elements and vectors in global memory ---------------------------------------------------------------------------


@cache
def element_accessors(dtype: str) -> tuple[Any, Any]:
    """Return ``load(pointer, i)`` and ``store(pointer, i, value)``, which move one element as a number."""
    bits, wide = ir.IntType(STORAGE[dtype].bitwidth), WIDE[dtype]

    def load(builder: Any, pointer: Any, i: Any) -> Any:
        return _widen(builder, builder.load(_element_pointer(builder, pointer, i, bits)), dtype)

    def store(builder: Any, pointer: Any, i: Any, value: Any) -> None:
        builder.store(_narrow(builder, value, dtype), _element_pointer(builder, pointer, i, bits))

    loads, stores = lambda p, i: wide(p, types.int64), lambda p, i, value: types.void(p, types.int64, wide)
    return make_intrinsic(loads, load), make_intrinsic(stores, store)


@cache
def guarded_load_function(dtype: str) -> Any:
    """Return ``load_if(pointer, i, inside, otherwise)``: element i if ``inside``, else ``otherwise``. It has no branch,
    because after a branch a thread would wait for the element immediately, not at its first use."""
    width, wide = STORAGE[dtype].bitwidth, WIDE[dtype]
    register = ir.IntType(max(width, 16))
    code = f"{{ .reg .pred inside; setp.ne.b32 inside, $2, 0; @inside ld.global.b{width} $0, [$1]; }}"

    def load_if(builder: Any, pointer: Any, i: Any, inside: Any, otherwise: Any) -> Any:
        address = _address(builder, pointer, i)
        bits = asm(builder, register, code, address, builder.zext(inside, I32), register(0), tied=1)
        if width < register.width:
            bits = builder.trunc(bits, ir.IntType(width))
        return builder.select(inside, _widen(builder, bits, dtype), otherwise)

    return make_intrinsic(lambda p, i, inside, otherwise: wide(p, types.int64, types.boolean, wide), load_if)


@cache
def vector_functions(dtype: str, width: int, *, keep_in_l2: bool = False) -> tuple[Any, Any]:
    """Return ``load_vector(pointer, i, row, k, inside)`` and ``store_vector(...)``, which do nothing unless ``inside``.

    They move ``width`` elements in one instruction, between aligned memory at i and registers from ``row[k]`` on.
    Packed halves (:func:`is_packed`) take a register per two elements. Others are widened, one element per register.
    Loads of 16 bytes bypass the L1 cache, and stores of 16 bytes are evicted first from the L2 cache. If
    ``keep_in_l2``, loads are evicted last instead, and stores have no hint, so that they leave L2 steadily."""
    bits, packed = STORAGE[dtype].bitwidth, is_packed(dtype, width)
    # In words of 32 bits, since the compiler would split a vector of eight 16-bit elements into two of 8 bytes.
    word = I64 if bits == 64 else ir.IntType(min(width * bits, 32))
    words, per_word, align = width * bits // word.width, word.width // bits, width * bits // 8
    vector = word if words == 1 else ir.VectorType(word, words)
    count = words if packed else width
    whole = align == 16 and count == words

    def load_vector(builder: Any, pointer: Any, i: Any, row: Any, k: Any, inside: Any) -> None:
        targets = _register_pointers(builder, row, k, count)
        if whole:
            _load_16_bytes(builder, _address(builder, pointer, i), targets, inside, keep_in_l2)
            return
        with builder.if_then(inside):
            loaded = builder.load(_element_pointer(builder, pointer, i, vector), align=align)
            for j, target in enumerate(targets):
                value = loaded if words == 1 else builder.extract_element(loaded, I32(j if packed else j // per_word))
                if not packed:
                    if per_word > 1:
                        value = builder.trunc(builder.lshr(value, word(j % per_word * bits)), ir.IntType(bits))
                    value = _widen(builder, value, dtype)
                builder.store(value, target)

    def store_vector(builder: Any, pointer: Any, i: Any, row: Any, k: Any, inside: Any) -> None:
        values = [builder.load(source) for source in _register_pointers(builder, row, k, count)]
        if whole:
            _store_16_bytes(builder, _address(builder, pointer, i), values, inside, keep_in_l2)
            return
        with builder.if_then(inside):
            elements = values if packed else [_narrow(builder, value, dtype) for value in values]
            if per_word > 1 and not packed:
                moved = [builder.shl(builder.zext(e, word), word(j % per_word * bits)) for j, e in enumerate(elements)]
                elements = [reduce(builder.or_, moved[j : j + per_word]) for j in range(0, width, per_word)]
            together = ir.Constant(ir.VectorType(elements[0].type, words), ir.Undefined)
            for j, element in enumerate(elements):
                together = builder.insert_element(together, element, I32(j))
            builder.store(builder.bitcast(together, vector), _element_pointer(builder, pointer, i, vector), align=align)

    def typed(p: Any, i: Any, row: Any, k: Any, inside: Any) -> Any:
        return types.void(p, types.int64, row, types.int64, types.boolean)

    return make_intrinsic(typed, load_vector), make_intrinsic(typed, store_vector)


def _load_16_bytes(builder: Any, address: Any, targets: list[Any], inside: Any, keep_in_l2: bool) -> None:
    """Load 16 bytes into registers, without a branch. If not ``inside``, the registers keep their values."""
    kind, count = targets[0].type.pointee, len(targets)
    names = ", ".join(f"${j}" for j in range(count))
    how, policy, hint = "L1::no_allocate", "", ""
    if keep_in_l2:
        how, hint = "L2::cache_hint", ", policy"
        policy = ".reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; "
    code = (
        f"{{ {policy}.reg .pred inside; setp.ne.b32 inside, ${count + 1}, 0; "
        f"@inside ld.global.{how}.v{count}.{SUFFIXES[kind]} {{{names}}}, [${count}]{hint}; }}"
    )
    before = [builder.load(target) for target in targets]
    result = ir.LiteralStructType([kind] * count)
    loaded = asm(builder, result, code, address, builder.zext(inside, I32), *before, tied=count)
    for j, target in enumerate(targets):
        builder.store(builder.extract_value(loaded, j), target)


def _store_16_bytes(builder: Any, address: Any, values: list[Any], inside: Any, keep_in_l2: bool) -> None:
    names = ", ".join(f"${j + 2}" for j in range(len(values)))
    store = f"st.global{'' if keep_in_l2 else '.cs'}.v{len(values)}.{SUFFIXES[values[0].type]} [$0], {{{names}}};"
    code = f"{{ .reg .pred inside; setp.ne.b32 inside, $1, 0; @inside {store} }}"
    asm(builder, None, code, address, builder.zext(inside, I32), *values)


# --- Shared memory ---------------------------------------------------------------------------------------------------


@cache
def shared_memory_functions(dtype: str) -> tuple[Any, Any, Any, Any]:
    """Return four functions. ``copy_vector(pointer, i, shared, j)`` starts to copy 16 bytes from global to shared
    memory. ``wait_copies()`` waits for all copies of this thread. ``load_shared(shared, j, row, k)`` loads 16 bytes
    from ``shared[j]`` on into registers from ``row[k]`` on. ``store_shared(shared, j, value)`` stores one element."""
    bits, wide = ir.IntType(STORAGE[dtype].bitwidth), WIDE[dtype]

    def copy_vector(builder: Any, pointer: Any, i: Any, shared: Any, j: Any) -> None:
        target, source = shared_address(builder, shared, j), _address(builder, pointer, i)
        asm(builder, None, "cp.async.cg.shared.global [$0], [$1], 16;", target, source, memory=True)

    def load_shared(builder: Any, shared: Any, j: Any, row: Any, k: Any) -> None:
        kind = row.type.pointee
        count = 2 if kind in (I64, F64) else 4
        names = ", ".join(f"${j}" for j in range(count))
        code, result = f"ld.shared.v{count}.{SUFFIXES[kind]} {{{names}}}, [${count}];", [kind] * count
        loaded = asm(builder, ir.LiteralStructType(result), code, shared_address(builder, shared, j), memory=True)
        for number, target in enumerate(_register_pointers(builder, row, k, count)):
            builder.store(builder.extract_value(loaded, number), target)

    def store_shared(builder: Any, shared: Any, j: Any, value: Any) -> None:
        builder.store(_narrow(builder, value, dtype), _element_pointer(builder, shared, j, bits))

    return (
        make_intrinsic(lambda p, i, shared, j: types.void(p, types.int64, shared, types.int64), copy_vector),
        make_intrinsic(lambda: types.void(), lambda builder: asm(builder, None, "cp.async.wait_all;", memory=True)),
        make_intrinsic(lambda shared, j, row, k: types.void(shared, types.int64, row, types.int64), load_shared),
        make_intrinsic(lambda shared, j, value: types.void(shared, types.int64, wide), store_shared),
    )


# --- Numbers ---------------------------------------------------------------------------------------------------------


@cache
def packed_functions(dtype: str, *, nan_stays: bool = False) -> tuple[Any, Any, Any, Any, Any]:
    """Return ``low(word)``, ``high(word)``, ``pack(low, high)``, ``packed_max(a, b)`` and ``packed_min(a, b)``.

    A word packs two halves. ``low`` and ``high`` widen one to float32. ``pack`` rounds two numbers to nearest even. The
    maximum ignores a NaN unless ``nan_stays``. The minimum is NaN if an element is."""
    kind = "f16x2" if dtype == "float16" else "bf16x2"

    def low(builder: Any, word: Any) -> Any:
        return _widen(builder, builder.trunc(word, I16), dtype)

    def high(builder: Any, word: Any) -> Any:
        return _widen(builder, builder.trunc(builder.lshr(word, I32(16)), I16), dtype)

    def packed_instruction(instruction: str) -> Any:
        code = f"{instruction}.{kind} $0, $1, $2;"
        typed = types.uint32(types.uint32, types.uint32)
        return make_intrinsic(lambda a, b: typed, lambda builder, a, b: asm(builder, I32, code, a, b))

    half, word = types.float32(types.uint32), types.uint32(types.float32, types.float32)
    pack = f"cvt.rn.{kind}.f32 $0, $1, $2;"
    return (
        make_intrinsic(lambda word: half, low),
        make_intrinsic(lambda word: half, high),
        make_intrinsic(lambda low, high: word, lambda builder, low, high: asm(builder, I32, pack, high, low)),
        packed_instruction("max.NaN" if nan_stays else "max"),
        packed_instruction("min.NaN"),
    )


opaque = make_intrinsic(
    lambda value: value(value), lambda builder, value: asm(builder, value.type, "", value, effect=True, tied=1)
)
"""Return the same value, but hide its origin from the compiler. Otherwise widened halves would stay in registers until
the next pass, and registers would run out. A quotient would also be recomputed for each element that uses it."""

maximum = make_intrinsic(
    lambda a, b: a(a, a), lambda builder, a, b: asm(builder, a.type, f"max.{SUFFIXES[a.type]} $0, $1, $2;", a, b)
)
"""The larger of two floats. It ignores a NaN. Softmax allows this, because the exponential of a NaN is NaN."""

nan_maximum = make_intrinsic(
    lambda a, b: a(a, a), lambda builder, a, b: asm(builder, F32, "max.NaN.f32 $0, $1, $2;", a, b)
)
"""The larger of two float32 numbers, or NaN if one of them is."""


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    if a.type == F32:
        return asm(builder, F32, "min.NaN.f32 $0, $1, $2;", a, b)  # sm_80 and later
    if a.type == F64:
        smaller = builder.fcmp_ordered("<", b, a)
        return builder.select(builder.or_(smaller, builder.fcmp_unordered("uno", b, b)), b, a)
    return builder.select(builder.icmp_signed("<", b, a), b, a)


minimum = make_intrinsic(lambda a, b: a(a, a), _minimum)
"""The smaller of two numbers, or NaN if one of them is."""


def _exponential(builder: Any, x: Any) -> Any:
    if x.type == F32:
        return asm(builder, F32, "ex2.approx.ftz.f32 $0, $1;", builder.fmul(x, F32(1.4426950408889634)))
    return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(F64, [F64]), "__nv_exp"), [x])


exponential = make_intrinsic(lambda x: x(x), _exponential)
"""e^x. In float32 it is the hardware's 2^(x log2 e), within two units in the last place, and subnormals become 0. In
float64 it is libdevice's. NaN stays NaN, and -inf gives 0. Numba's fastmath would guarantee neither."""


# --- Numbers and counters that blocks share --------------------------------------------------------------------------


def _atomic_min(builder: Any, pointer: Any, i: Any, value: Any) -> None:
    address = _address(builder, pointer, i)
    is_integer = isinstance(value.type, ir.IntType)
    integer = value.type if is_integer else {F32: I32, F64: I64}[value.type]
    signed, unsigned = (f"red.relaxed.gpu.global.{kind}{integer.width} [$0], $1;" for kind in ("min.s", "max.u"))
    if is_integer:
        asm(builder, None, signed, address, value)
        return
    nan = builder.fcmp_unordered("uno", value, value)
    key = builder.select(nan, integer(-1), builder.bitcast(value, integer))
    with builder.if_else(builder.icmp_signed(">=", key, integer(0))) as (positive, negative):
        with positive:
            asm(builder, None, signed, address, key)
        with negative:
            asm(builder, None, unsigned, address, key)


atomic_min = make_intrinsic(lambda pointer, i, value: types.void(pointer, types.int64, value), _atomic_min)
"""``atomic_min(pointer, i, value)``: lower ``pointer[i]``, a 32- or 64-bit number, to ``value``. NaN is the lowest.

Floats are compared by their bits. As signed integers, non-negative ones are in order and above all negative ones. As
unsigned integers, negative ones are in reverse order and above all others. So a non-negative value takes a signed
minimum, and a negative one an unsigned maximum. A NaN is all ones, the greatest of those.
"""


def _arrive(builder: Any, counters: Any, i: Any, last: Any) -> Any:
    address, limit = _address(builder, counters, i), builder.trunc(last, I32)
    return builder.zext(
        asm(builder, I32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", address, limit, memory=True), I64
    )


arrive = make_intrinsic(lambda counters, i, last: types.int64(counters, types.int64, types.int64), _arrive)
"""``arrive(counters, i, last)``: increment a counter and return its old value. If that is ``last``, set the counter to
0. This thread's earlier writes are visible to threads that arrive later (acquire and release, device-wide)."""


def _make_counter_intrinsic(instruction: str) -> Any:
    return make_intrinsic(
        lambda counters, i: types.int64(counters, types.int64),
        lambda builder, counters, i: asm(builder, I64, instruction, _address(builder, counters, i), memory=True),
    )


count_up = _make_counter_intrinsic("atom.acq_rel.gpu.global.add.u64 $0, [$1], 1;")
"""``count_up(counters, i)``: increment a 64-bit counter and return its old value. Memory order: as for ``arrive``."""
load_counter = _make_counter_intrinsic("ld.acquire.gpu.global.u64 $0, [$1];")
"""``load_counter(counters, i)``: return a counter. Writes from before the counted arrivals are then visible."""
