"""Shared memory: copies to and from it as it is, and elements and vectors of it."""

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE
from kernelzoo.kernels.numba.machine.code import I32, I64, LETTERS, asm, narrow, widen


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

    @intrinsic  # the aligned 16 bytes from element i on, which may be before the pointer
    def copy_in(typing, pointer, i, tile, j):
        def codegen(context, builder, signature, args):
            source = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
            target = in_shared(context, builder, signature.args[2], args[2], args[3])
            code = "cp.async.cg.shared.global [$0], [$1], 16;"
            asm(builder, ir.VoidType(), [target, source], code, "r,l,~{memory}", True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, tile, types.int64), codegen

    @intrinsic
    def wait_copies(typing):
        def codegen(context, builder, signature, args):
            asm(builder, ir.VoidType(), [], "cp.async.wait_all;", "~{memory}", True)
            return context.get_dummy_value()

        return types.void(), codegen

    @intrinsic
    def copy_out(typing, tile, j, pointer, i):
        def codegen(context, builder, signature, args):
            source = in_shared(context, builder, signature.args[0], args[0], args[1])
            target = builder.ptrtoint(builder.gep(args[2], [args[3]]), I64)
            code = "{ .reg .b32 a, b, c, d; ld.shared.v4.b32 {a, b, c, d}, [$1]; st.global.v4.b32 [$0], {a, b, c, d}; }"
            asm(builder, ir.VoidType(), [target, source], code, "l,r,~{memory}", True)
            return context.get_dummy_value()

        return types.void(tile, types.int64, pointer, types.int64), codegen

    @intrinsic
    def widened(typing, tile, j):
        def codegen(context, builder, signature, args):
            at = element(context, builder, signature.args[0], args[0], args[1])
            return widen(builder, builder.load(builder.bitcast(at, bits.as_pointer())), dtype)

        return wide(tile, types.int64), codegen

    @intrinsic
    def set_narrow(typing, tile, j, value):
        def codegen(context, builder, signature, args):
            at = element(context, builder, signature.args[0], args[0], args[1])
            builder.store(narrow(builder, args[2], dtype), builder.bitcast(at, bits.as_pointer()))
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
            asm(builder, ir.VoidType(), [target, source], code, "r,l,~{memory}", True)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, tile, types.int64), codegen

    return copy_element


@intrinsic
def end_group(typing):
    """What this thread has started to copy since the last time is one group."""

    def codegen(context, builder, signature, args):
        asm(builder, ir.VoidType(), [], "cp.async.commit_group;", "~{memory}", True)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def wait_groups(typing):
    """Wait for all groups but the last one."""

    def codegen(context, builder, signature, args):
        asm(builder, ir.VoidType(), [], "cp.async.wait_group 1;", "~{memory}", True)
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
            letter, suffix = LETTERS[data.type.pointee]
            count = 2 if letter in "ld" else 4
            names = ", ".join(f"${j}" for j in range(count))
            code = f"ld.shared.v{count}.{suffix} {{{names}}}, [${count}];"
            kind = ir.LiteralStructType([data.type.pointee] * count)
            loaded = asm(builder, kind, [address], code, ",".join([f"={letter}"] * count) + ",r,~{memory}", True)
            for k in range(count):
                target = builder.gep(data, [builder.add(args[3], I64(k))])
                builder.store(builder.extract_value(loaded, k), target)
            return context.get_dummy_value()

        return types.void(tile, types.int64, row, types.int64), codegen

    return load_tile


def tile_words(dtype: str, size: int) -> tuple[Any, Any]:
    """``load_words(tile, j, row, k)``: ``size`` bytes of shared memory, aligned to 4, 8 or 16 as they are, from element
    j on, as they lie there to registers from ``row[k]`` on; ``store_words`` is the way back."""

    def registers(context: Any, builder: Any, kind: Any, row: Any, k: Any) -> tuple[list[Any], str, str]:
        data = cgutils.create_struct_proxy(kind)(context, builder, row).data
        letter, suffix = LETTERS[data.type.pointee]
        count = size // (8 if letter in "ld" else 4)
        parts = [builder.gep(data, [builder.add(k, I64(part))]) for part in range(count)]
        return parts, letter, f"{'' if count == 1 else f'v{count}.'}{suffix}"

    def address(context: Any, builder: Any, kind: Any, tile: Any, j: Any) -> Any:
        at = builder.gep(cgutils.create_struct_proxy(kind)(context, builder, tile).data, [j])
        return builder.ptrtoint(builder.addrspacecast(at, at.type.pointee.as_pointer(3)), I32)

    @intrinsic
    def load_words(typing, tile, j, row, k):
        def codegen(context, builder, signature, args):
            source = address(context, builder, signature.args[0], *args[:2])
            parts, letter, suffix = registers(context, builder, signature.args[2], *args[2:])
            names = ", ".join(f"${part}" for part in range(len(parts)))
            kind = ir.LiteralStructType([part.type.pointee for part in parts])
            kind = kind if len(parts) > 1 else parts[0].type.pointee
            code = f"ld.shared.{suffix} {{{names}}}, [${len(parts)}];"
            constraints = ",".join([f"={letter}"] * len(parts)) + ",r,~{memory}"
            loaded = asm(builder, kind, [source], code, constraints, True)
            for number, part in enumerate(parts):
                builder.store(builder.extract_value(loaded, number) if len(parts) > 1 else loaded, part)
            return context.get_dummy_value()

        return types.void(tile, types.int64, row, types.int64), codegen

    @intrinsic
    def store_words(typing, tile, j, row, k):
        def codegen(context, builder, signature, args):
            target = address(context, builder, signature.args[0], *args[:2])
            parts, letter, suffix = registers(context, builder, signature.args[2], *args[2:])
            names = ", ".join(f"${part + 1}" for part in range(len(parts)))
            values = [builder.load(part) for part in parts]
            code = f"st.shared.{suffix} [$0], {{{names}}};"
            constraints = "r," + ",".join([letter] * len(parts)) + ",~{memory}"
            asm(builder, ir.VoidType(), [target, *values], code, constraints, True)
            return context.get_dummy_value()

        return types.void(tile, types.int64, row, types.int64), codegen

    return load_words, store_words
