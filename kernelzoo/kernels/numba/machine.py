"""What Numba's language has no word for, as intrinsics: 16-byte vectors, half precision, NaN-keeping minima, atomics.

Each function here is a few instructions of the GPU, written as LLVM IR or inline PTX, and has a twin of the same name
in :mod:`kernelzoo.kernels.numba.simulated` that says the same in NumPy; kernels take whichever runs from
:mod:`kernelzoo.kernels.numba.row`. Pointers are raw addresses (``CPointer``), offsets count elements in 64 bits.

Half precision is moved as 16-bit integers and converted by single instructions. Numba has a bfloat16 of its own, but
each of its operations is a call into a C++ shim, compiled with NVRTC and linked in at every compilation.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


def _asm(builder: Any, result: Any, operands: list[Any], code: str, constraints: str, effect: bool = False) -> Any:
    function = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.asm(function, code, constraints, operands, effect)


def _widen(builder: Any, bits: Any, dtype: str) -> Any:
    """One element as stored, an integer of its size, as the type it is computed in."""
    if dtype == "bfloat16":
        return builder.bitcast(builder.shl(builder.zext(bits, I32), I32(16)), F32)
    if dtype == "float16":
        return builder.fpext(builder.bitcast(bits, F16), F32)
    if dtype == "float32":
        return builder.bitcast(bits, F32)
    if dtype == "float64":
        return builder.bitcast(bits, F64)
    if dtype in ("bool", "uint8"):
        return builder.zext(bits, I32)
    return builder.sext(bits, I32) if bits.type.width < 32 else bits


def _narrow(builder: Any, value: Any, dtype: str) -> Any:
    """The inverse of _widen, rounding to nearest even."""
    if dtype in ("float16", "bfloat16"):
        kind = "f16" if dtype == "float16" else "bf16"
        return _asm(builder, I16, [value], f"cvt.rn.{kind}.f32 $0, $1;", "=h,f")
    width = STORAGE[dtype].bitwidth
    if isinstance(value.type, ir.IntType):
        return builder.trunc(value, ir.IntType(width)) if value.type.width > width else value
    return builder.bitcast(value, ir.IntType(width))


def _at(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    """The address of an element as a pointer to ``kind``."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _words(dtype: str, width: int) -> tuple[Any, int]:
    """The LLVM type that a vector of elements is moved as, and how many elements share a word of it.

    In words of 32 bits, since the compiler would split a vector of eight 16-bit elements into two of 8 bytes.
    """
    bits = STORAGE[dtype].bitwidth
    word = I64 if bits == 64 else ir.IntType(min(width * bits, 32))
    count = width * bits // word.width
    return (word if count == 1 else ir.VectorType(word, count)), word.width // bits


def element_functions(dtype: str) -> tuple[Any, Any]:
    """``load(pointer, i)`` and ``store(pointer, i, value)`` of one element."""
    bits = ir.IntType(STORAGE[dtype].bitwidth)
    wide = WIDE[dtype]

    @intrinsic
    def load(typing, pointer, i):
        def codegen(context, builder, signature, args):
            return _widen(builder, builder.load(_at(builder, args[0], args[1], bits)), dtype)

        return wide(pointer, types.int64), codegen

    @intrinsic
    def store(typing, pointer, i, value):
        def codegen(context, builder, signature, args):
            builder.store(_narrow(builder, args[2], dtype), _at(builder, args[0], args[1], bits))
            return context.get_dummy_value()

        return types.void(pointer, types.int64, wide), codegen

    return load, store


def guarded_load(dtype: str) -> Any:
    """``load_if(pointer, i, inside, otherwise)``: one element, or else ``otherwise``. Without a branch: in one, a
    thread would wait for the element at once, and not where it is used."""
    width = STORAGE[dtype].bitwidth
    register, letter = {8: (I16, "h"), 16: (I16, "h"), 32: (I32, "r"), 64: (I64, "l")}[width]
    code = f"{{ .reg .pred inside; setp.ne.b32 inside, $2, 0; @inside ld.global.b{width} $0, [$1]; }}"
    wide = WIDE[dtype]

    @intrinsic
    def load_if(typing, pointer, i, inside, otherwise):
        def codegen(context, builder, signature, args):
            address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
            operands = [address, builder.zext(args[2], I32), register(0)]
            bits = _asm(builder, register, operands, code, f"={letter},l,r,0")
            if width < register.width:
                bits = builder.trunc(bits, ir.IntType(width))
            return builder.select(args[2], _widen(builder, bits, dtype), args[3])

        return wide(pointer, types.int64, types.boolean, wide), codegen

    return load_if


def is_packed(dtype: str, width: int) -> bool:
    """Whether vectors of that width stay in registers as they lie in memory: halves, two to a word of 32 bits."""
    return dtype in ("float16", "bfloat16") and width > 1


def vector_functions(dtype: str, width: int, *, kept: bool = False) -> tuple[Any, Any]:
    """``load_vector(pointer, i, row, k, inside)`` and ``store_vector(...)``: ``width`` elements in one instruction,
    between memory at i, aligned to the vector's size, and the registers from ``row[k]`` on; nothing if not ``inside``.

    Packed halves (:func:`is_packed`) are words, two elements each; anything else is one element each, widened. Whole
    vectors of 16 bytes are read past the L1 cache, and written to be the first to leave the L2 cache; or, ``kept``,
    what is read stays in the L2 cache longer than what is written, which then leaves for memory steadily.
    """
    vector, shared = _words(dtype, width)
    one_word = not isinstance(vector, ir.VectorType)
    bits = STORAGE[dtype].bitwidth
    align = width * bits // 8
    packed = is_packed(dtype, width)
    registers_per_word = 1 if packed else shared
    whole = align == 16 and registers_per_word == 1

    def registers(context: Any, builder: Any, kind: Any, row: Any, k: Any) -> list[Any]:
        data = cgutils.create_struct_proxy(kind)(context, builder, row).data
        return [builder.gep(data, [builder.add(k, k.type(j))]) for j in range(width // (shared if packed else 1))]

    @intrinsic
    def load_vector(typing, pointer, i, row, k, inside):
        def codegen(context, builder, signature, args):
            targets = registers(context, builder, signature.args[2], args[2], args[3])
            if whole:
                address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
                _load_whole(builder, address, targets, args[4], kept)
                return context.get_dummy_value()
            with builder.if_then(args[4]):
                loaded = builder.load(_at(builder, args[0], args[1], vector), align=align)
                for j, target in enumerate(targets):
                    at = j // registers_per_word
                    word = loaded if one_word else builder.extract_element(loaded, I32(at))
                    if packed:
                        builder.store(word, target)
                        continue
                    if shared > 1:
                        word = builder.trunc(builder.lshr(word, word.type(j % shared * bits)), ir.IntType(bits))
                    builder.store(_widen(builder, word, dtype), target)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, row, types.int64, types.boolean), codegen

    @intrinsic
    def store_vector(typing, pointer, i, row, k, inside):
        def codegen(context, builder, signature, args):
            sources = registers(context, builder, signature.args[2], args[2], args[3])
            values = [builder.load(source) for source in sources]
            if whole:
                address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
                _store_whole(builder, address, values, args[4], "" if kept else STORE_HINT)
                return context.get_dummy_value()
            with builder.if_then(args[4]):
                words = values if packed else [_narrow(builder, value, dtype) for value in values]
                together = words[0]
                if not one_word:
                    together = ir.Constant(vector, ir.Undefined)
                    for j, word in enumerate(words):
                        together = builder.insert_element(together, word, I32(j))
                builder.store(together, _at(builder, args[0], args[1], vector), align=align)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, row, types.int64, types.boolean), codegen

    return load_vector, store_vector


_LETTERS = {I32: ("r", "b32"), I64: ("l", "b64"), F32: ("f", "f32"), F64: ("d", "f64")}


def _load_whole(builder: Any, address: Any, targets: list[Any], inside: Any, kept: bool) -> None:
    """16 bytes from an address into registers, which keep what they hold where not ``inside``: no branch."""
    kind = targets[0].type.pointee
    letter, suffix = _LETTERS[kind]
    count = len(targets)
    names = ", ".join(f"${j}" for j in range(count))
    how, policy, hint = "L1::no_allocate", "", ""
    if kept:
        how, hint = "L2::cache_hint", ", policy"
        policy = ".reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; "
    code = (
        f"{{ {policy}.reg .pred inside; setp.ne.b32 inside, ${count + 1}, 0; "
        f"@inside ld.global.{how}.v{count}.{suffix} {{{names}}}, [${count}]{hint}; }}"
    )
    operands = [address, builder.zext(inside, I32), *(builder.load(target) for target in targets)]
    constraints = ",".join([*[f"={letter}"] * count, "l", "r", *map(str, range(count))])
    loaded = _asm(builder, ir.LiteralStructType([kind] * count), operands, code, constraints)
    for j, target in enumerate(targets):
        builder.store(builder.extract_value(loaded, j), target)


def _store_whole(builder: Any, address: Any, values: list[Any], inside: Any, hint: str) -> None:
    letter, suffix = _LETTERS[values[0].type]
    count = len(values)
    names = ", ".join(f"${j + 2}" for j in range(count))
    store = f"st.global{hint}.v{count}.{suffix} [$0], {{{names}}};"
    code = f"{{ .reg .pred inside; setp.ne.b32 inside, $1, 0; @inside {store} }}"
    operands = [address, builder.zext(inside, I32), *values]
    _asm(builder, ir.VoidType(), operands, code, ",".join(["l", "r", *[letter] * count]), True)


STORE_HINT = ".cs"
"""What is written is not read again here: first to leave the caches."""


def word_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    """``low(word)``, ``high(word)``, ``pair(low, high)``, ``larger(a, b)``, ``least(a, b)``: two halves in 32 bits.

    ``low`` and ``high`` widen to float32, ``pair`` rounds to nearest even; ``larger`` drops a NaN, ``least`` keeps it.
    """
    kind = "f16x2" if dtype == "float16" else "bf16x2"

    @intrinsic
    def low(typing, word):
        def codegen(context, builder, signature, args):
            if dtype == "bfloat16":
                return builder.bitcast(builder.shl(args[0], I32(16)), F32)
            return _widen(builder, builder.trunc(args[0], I16), dtype)

        return types.float32(types.uint32), codegen

    @intrinsic
    def high(typing, word):
        def codegen(context, builder, signature, args):
            if dtype == "bfloat16":
                return builder.bitcast(builder.and_(args[0], I32(0xFFFF0000)), F32)
            return _widen(builder, builder.trunc(builder.lshr(args[0], I32(16)), I16), dtype)

        return types.float32(types.uint32), codegen

    @intrinsic
    def pair(typing, first, second):
        def codegen(context, builder, signature, args):
            return _asm(builder, I32, [args[1], args[0]], f"cvt.rn.{kind}.f32 $0, $1, $2;", "=r,f,f")

        return types.uint32(types.float32, types.float32), codegen

    def both(instruction: str) -> Any:
        @intrinsic
        def compare(typing, a, b):
            def codegen(context, builder, signature, args):
                return _asm(builder, I32, list(args), f"{instruction}.{kind} $0, $1, $2;", "=r,r,r")

            return types.uint32(types.uint32, types.uint32), codegen

        return compare

    return low, high, pair, both("max"), both("min.NaN")


@intrinsic
def keep(typing, word):
    """The same word, as if it were new: the compiler, left to itself, would keep widened values from one pass over
    packed halves to the next, and run out of registers."""

    def codegen(context, builder, signature, args):
        return _asm(builder, I32, [args[0]], "", "=r,0", True)

    return types.uint32(types.uint32), codegen


def tile_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    """A piece of memory in shared memory, as it is: ``copy_in(pointer, i, tile, j)`` starts to copy 16 bytes there,
    ``wait_copies()`` waits for all that this thread started, ``copy_out(tile, j, pointer, i, inside)`` copies 16 bytes
    back at once; ``widened(tile, j)`` and ``set_narrow(tile, j, value)`` are single elements."""
    bits = ir.IntType(STORAGE[dtype].bitwidth)
    wide = WIDE[dtype]

    def element(context: Any, builder: Any, kind: Any, tile: Any, j: Any) -> Any:
        data = cgutils.create_struct_proxy(kind)(context, builder, tile).data
        return builder.gep(data, [j])

    def in_shared(context: Any, builder: Any, kind: Any, tile: Any, j: Any) -> Any:
        at = element(context, builder, kind, tile, j)
        return builder.ptrtoint(builder.addrspacecast(at, at.type.pointee.as_pointer(3)), I32)

    @intrinsic
    def copy_in(typing, pointer, i, tile, j):
        def codegen(context, builder, signature, args):
            source = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
            target = in_shared(context, builder, signature.args[2], args[2], args[3])
            code = "cp.async.cg.shared.global [$0], [$1], 16;"
            _asm(builder, ir.VoidType(), [target, source], code, "r,l,~{memory}", True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, tile, types.int64), codegen

    @intrinsic
    def wait_copies(typing):
        def codegen(context, builder, signature, args):
            _asm(builder, ir.VoidType(), [], "cp.async.wait_all;", "~{memory}", True)
            return context.get_dummy_value()

        return types.void(), codegen

    @intrinsic
    def copy_out(typing, tile, j, pointer, i):
        def codegen(context, builder, signature, args):
            source = in_shared(context, builder, signature.args[0], args[0], args[1])
            target = builder.ptrtoint(builder.gep(args[2], [args[3]]), I64)
            code = "{ .reg .b32 a, b, c, d; ld.shared.v4.b32 {a, b, c, d}, [$1]; st.global.v4.b32 [$0], {a, b, c, d}; }"
            _asm(builder, ir.VoidType(), [target, source], code, "l,r,~{memory}", True)
            return context.get_dummy_value()

        return types.void(tile, types.int64, pointer, types.int64), codegen

    @intrinsic
    def widened(typing, tile, j):
        def codegen(context, builder, signature, args):
            at = element(context, builder, signature.args[0], args[0], args[1])
            return _widen(builder, builder.load(builder.bitcast(at, bits.as_pointer())), dtype)

        return wide(tile, types.int64), codegen

    @intrinsic
    def set_narrow(typing, tile, j, value):
        def codegen(context, builder, signature, args):
            at = element(context, builder, signature.args[0], args[0], args[1])
            builder.store(_narrow(builder, args[2], dtype), builder.bitcast(at, bits.as_pointer()))
            return context.get_dummy_value()

        return types.void(tile, types.int64, wide), codegen

    return copy_in, wait_copies, copy_out, widened, set_narrow


def element_copy(dtype: str) -> Any:
    """``copy_element(pointer, i, tile, j)``: start to copy one element of 4 or 8 bytes to shared memory, on no boundary
    but its own; ``wait_copies`` waits for these too."""
    size = STORAGE[dtype].bitwidth // 8

    @intrinsic
    def copy_element(typing, pointer, i, tile, j):
        def codegen(context, builder, signature, args):
            source = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
            data = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2]).data
            at = builder.gep(data, [args[3]])
            target = builder.ptrtoint(builder.addrspacecast(at, at.type.pointee.as_pointer(3)), I32)
            code = f"cp.async.ca.shared.global [$0], [$1], {size};"
            _asm(builder, ir.VoidType(), [target, source], code, "r,l,~{memory}", True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, tile, types.int64), codegen

    return copy_element


def word_copy(dtype: str) -> Any:
    """``copy_word(pointer, i, tile, j, end)``: start to copy the aligned 16 bytes from element i on to shared memory,
    zeros for what is not before ``end``; ``wait_copies`` waits for these too. The first word may begin before the
    pointer: with elements of somebody else's, but there."""
    size = STORAGE[dtype].bitwidth // 8

    @intrinsic
    def copy_word(typing, pointer, i, tile, j, end):
        def codegen(context, builder, signature, args):
            source = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
            data = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2]).data
            at = builder.gep(data, [args[3]])
            target = builder.ptrtoint(builder.addrspacecast(at, at.type.pointee.as_pointer(3)), I32)
            left = builder.mul(builder.sub(args[4], args[1]), I64(size))
            count = builder.trunc(builder.select(builder.icmp_signed("<", left, I64(16)), left, I64(16)), I32)
            code = "cp.async.cg.shared.global [$0], [$1], 16, $2;"
            _asm(builder, ir.VoidType(), [target, source, count], code, "r,l,r,~{memory}", True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, tile, types.int64, types.int64), codegen

    return copy_word


@intrinsic
def end_group(typing):
    """What this thread has started to copy since the last time is one group."""

    def codegen(context, builder, signature, args):
        _asm(builder, ir.VoidType(), [], "cp.async.commit_group;", "~{memory}", True)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def wait_groups(typing):
    """Wait for all groups but the last one."""

    def codegen(context, builder, signature, args):
        _asm(builder, ir.VoidType(), [], "cp.async.wait_group 1;", "~{memory}", True)
        return context.get_dummy_value()

    return types.void(), codegen


def tile_vector(dtype: str) -> Any:
    """``load_tile(tile, j, row, k)``: 16 bytes of shared memory from element j on, to registers from ``row[k]`` on."""

    @intrinsic
    def load_tile(typing, tile, j, row, k):
        def codegen(context, builder, signature, args):
            shared = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data
            at = builder.gep(shared, [args[1]])
            address = builder.ptrtoint(builder.addrspacecast(at, at.type.pointee.as_pointer(3)), I32)
            data = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2]).data
            letter, suffix = _LETTERS[data.type.pointee]
            count = 2 if letter in "ld" else 4
            names = ", ".join(f"${j}" for j in range(count))
            code = f"ld.shared.v{count}.{suffix} {{{names}}}, [${count}];"
            kind = ir.LiteralStructType([data.type.pointee] * count)
            loaded = _asm(builder, kind, [address], code, ",".join([f"={letter}"] * count) + ",r,~{memory}", True)
            for k in range(count):
                target = builder.gep(data, [builder.add(args[3], I64(k))])
                builder.store(builder.extract_value(loaded, k), target)
            return context.get_dummy_value()

        return types.void(tile, types.int64, row, types.int64), codegen

    return load_tile


@intrinsic
def maximum(typing, a, b):
    """The larger of two floats; a NaN is dropped, as softmax may: it comes back through the exponential."""
    kind, letter = ("f32", "f") if a == types.float32 else ("f64", "d")

    def codegen(context, builder, signature, args):
        return _asm(builder, args[0].type, list(args), f"max.{kind} $0, $1, $2;", f"={letter},{letter},{letter}")

    return a(a, a), codegen


@intrinsic
def minimum(typing, a, b):
    """The smaller of two numbers, NaN if one of them is."""

    def codegen(context, builder, signature, args):
        first, second = args
        if a == types.float32:
            return _asm(builder, F32, [first, second], "min.NaN.f32 $0, $1, $2;", "=f,f,f")  # sm_80 and later
        if a == types.float64:
            smaller = builder.fcmp_ordered("<", second, first)
            return builder.select(builder.or_(smaller, builder.fcmp_unordered("uno", second, second)), second, first)
        return builder.select(builder.icmp_signed("<", second, first), second, first)

    return a(a, a), codegen


@intrinsic
def exponential(typing, x):
    """e^x. In float32 as 2^(x log2 e) by the hardware's approximation, two units in the last place, subnormals flushed;
    in float64 by libdevice. NaN stays NaN, -inf gives 0. Numba's fastmath would assume that neither occurs."""

    def codegen(context, builder, signature, args):
        if x == types.float32:
            scaled = builder.fmul(args[0], F32(1.4426950408889634))
            return _asm(builder, F32, [scaled], "ex2.approx.ftz.f32 $0, $1;", "=f,f")
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(F64, [F64]), "__nv_exp")
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def atomic_min(typing, pointer, i, value):
    """Lower ``pointer[i]``, a 32- or 64-bit number, to ``value``, NaN winning.

    Floats go by their bits: read as signed integers, non-negative ones stand in their own order and above all negative
    ones; read as unsigned, negative ones stand in reverse order and above all others. So a non-negative value is a
    signed minimum, a negative one an unsigned maximum, and a NaN is all ones, the greatest of those.
    """
    width = value.bitwidth
    letter = "r" if width == 32 else "l"

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        signed = f"red.relaxed.gpu.global.min.s{width} [$0], $1;"
        unsigned = f"red.relaxed.gpu.global.max.u{width} [$0], $1;"
        if isinstance(value, types.Integer):
            _asm(builder, ir.VoidType(), [address, args[2]], signed, f"l,{letter}", True)
            return context.get_dummy_value()
        integer = ir.IntType(width)
        nan = builder.fcmp_unordered("uno", args[2], args[2])
        key = builder.select(nan, integer(-1), builder.bitcast(args[2], integer))
        with builder.if_else(builder.icmp_signed(">=", key, integer(0))) as (positive, negative):
            with positive:
                _asm(builder, ir.VoidType(), [address, key], signed, f"l,{letter}", True)
            with negative:
                _asm(builder, ir.VoidType(), [address, key], unsigned, f"l,{letter}", True)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), codegen


@intrinsic
def arrive(typing, counters, i, last):
    """Count one more arrival at ``counters[i]`` and return how many came before; after ``last`` it starts again at 0.

    Everything that this thread wrote before is seen by whoever arrives later (acquire and release, device-wide).
    """

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        code = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;"
        limit = builder.trunc(args[2], I32)
        before = _asm(builder, I32, [address, limit], code, "=r,l,r,~{memory}", True)
        return builder.zext(before, I64)

    return types.int64(counters, types.int64, types.int64), codegen


@intrinsic
def count_up(typing, counters, i):
    """Count an arrival at the 64-bit ``counters[i]`` and return how many came before it, ever; acquire and release."""

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        return _asm(builder, I64, [address], "atom.acq_rel.gpu.global.add.u64 $0, [$1], 1;", "=l,l,~{memory}", True)

    return types.int64(counters, types.int64), codegen


@intrinsic
def seen(typing, counters, i):
    """What the 64-bit ``counters[i]`` holds now; what was written before those arrivals may be read after it."""

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        return _asm(builder, I64, [address], "ld.acquire.gpu.global.u64 $0, [$1];", "=l,l,~{memory}", True)

    return types.int64(counters, types.int64), codegen
