"""Elements, and vectors of up to 16 bytes, between global memory and registers."""

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE
from kernelzoo.kernels.numba.machine.code import I16, I32, I64, LETTERS, asm, element_at, narrow, widen
from kernelzoo.kernels.numba.machine.halves import is_packed

STORE_HINT = ".cs"
"""What is written is not read again here: first to leave the caches."""


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
            return widen(builder, builder.load(element_at(builder, args[0], args[1], bits)), dtype)

        return wide(pointer, types.int64), codegen

    @intrinsic
    def store(typing, pointer, i, value):
        def codegen(context, builder, signature, args):
            builder.store(narrow(builder, args[2], dtype), element_at(builder, args[0], args[1], bits))
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
            bits = asm(builder, register, operands, code, f"={letter},l,r,0")
            if width < register.width:
                bits = builder.trunc(bits, ir.IntType(width))
            return builder.select(args[2], widen(builder, bits, dtype), args[3])

        return wide(pointer, types.int64, types.boolean, wide), codegen

    return load_if


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
                loaded = builder.load(element_at(builder, args[0], args[1], vector), align=align)
                for j, target in enumerate(targets):
                    at = j // registers_per_word
                    word = loaded if one_word else builder.extract_element(loaded, I32(at))
                    if packed:
                        builder.store(word, target)
                        continue
                    if shared > 1:
                        word = builder.trunc(builder.lshr(word, word.type(j % shared * bits)), ir.IntType(bits))
                    builder.store(widen(builder, word, dtype), target)
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
                words = values if packed else [narrow(builder, value, dtype) for value in values]
                together = words[0]
                if not one_word:
                    together = ir.Constant(vector, ir.Undefined)
                    for j, word in enumerate(words):
                        together = builder.insert_element(together, word, I32(j))
                builder.store(together, element_at(builder, args[0], args[1], vector), align=align)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, row, types.int64, types.boolean), codegen

    return load_vector, store_vector


def _load_whole(builder: Any, address: Any, targets: list[Any], inside: Any, kept: bool) -> None:
    """16 bytes from an address into registers, which keep what they hold where not ``inside``: no branch."""
    kind = targets[0].type.pointee
    letter, suffix = LETTERS[kind]
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
    loaded = asm(builder, ir.LiteralStructType([kind] * count), operands, code, constraints)
    for j, target in enumerate(targets):
        builder.store(builder.extract_value(loaded, j), target)


def _store_whole(builder: Any, address: Any, values: list[Any], inside: Any, hint: str) -> None:
    letter, suffix = LETTERS[values[0].type]
    count = len(values)
    names = ", ".join(f"${j + 2}" for j in range(count))
    store = f"st.global{hint}.v{count}.{suffix} [$0], {{{names}}};"
    code = f"{{ .reg .pred inside; setp.ne.b32 inside, $1, 0; @inside {store} }}"
    operands = [address, builder.zext(inside, I32), *values]
    asm(builder, ir.VoidType(), operands, code, ",".join(["l", "r", *[letter] * count]), True)
