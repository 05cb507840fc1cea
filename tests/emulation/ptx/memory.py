"""Loads, stores, atomic operations, and copies that go on by themselves."""

import re

from .text import BYTES, PtxError
from .writing import Instruction, c_type, instruction, is_float

_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
_ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio", "sc")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_HINTS = re.compile(r"L[12]::(?:\w+)|ca|cg|cs|lu|cv|wb|wt|nc|unified")


def ignored(i: Instruction) -> bool:
    """Leave out what is said to the caches; whether a policy is the last operand."""
    has_policy = "L2::cache_hint" in i.left
    i.left[:] = [modifier for modifier in i.left if not _HINTS.fullmatch(modifier)]
    return has_policy


def place(i: Instruction, at: int, space: str, size: int, writes: bool) -> str:
    """Where so many bytes are, once it is known that they may be used."""
    address, write = i.to.address(i.operands[at]), str(writes).lower()
    if space in ("global", "const"):
        return f"in_global({address}, {size}, {write})"
    if space.startswith("shared"):
        return f"in_shared(t, {address}, {size})"
    if space == "local":
        return f"in_local(t, {address}, {size})"
    if space.startswith("param"):
        return f"(u8*)({address})"
    return f"anywhere(t, {address}, {size}, {write})"


def _asks(i: Instruction, order: str) -> None:
    """Before a load of what another thread writes: others have a turn."""
    if order in ("relaxed", "acquire", "volatile", "mmio"):
        i.to.stop("ask_later(t)")


@instruction("ld")
def load(i: Instruction) -> None:
    ignored(i)
    order, _ = i.take(*_ORDERS), i.take(*_SCOPES)
    space, kind, several = i.take(*_SPACES), i.kind(), i.take("v2", "v4", "v8")
    count, size = int(several[1:] or 1) if several else 1, BYTES[kind]
    parts = i.to.many(i.operands[0])
    if len(parts) != count:
        raise PtxError("as many registers as it loads")
    _asks(i, order)
    i.to.do(f"{{ const u8* const from = {place(i, 1, space, count * size, False)};")
    word = kind if not is_float(kind) else f"b{8 * size}"
    values = [f"loaded<{c_type(word)}>(from + {k * size})" for k in range(count)]
    for k, text in enumerate(values):  # all before any is set, one of which may be the address
        i.to.do(f"const auto v{k} = {text};")
    for k, part in enumerate(parts):
        i.to.put(part, word, f"v{k}")
    i.to.do("}")


@instruction("st")
def store(i: Instruction) -> None:
    ignored(i)
    order, _ = i.take(*_ORDERS), i.take(*_SCOPES)
    space, kind, several = i.take(*_SPACES), i.kind(), i.take("v2", "v4", "v8")
    count, size = int(several[1:] or 1) if several else 1, BYTES[kind]
    parts = i.to.many(i.operands[1])
    if len(parts) != count:
        raise PtxError("as many registers as it stores")
    if order in ("relaxed", "release", "volatile", "mmio"):
        i.to.stop("pause(t)")
    i.to.do(f"{{ u8* const to = {place(i, 0, space, count * size, True)};")
    for k, part in enumerate(parts):
        text = i.to.get(part, kind)
        i.to.do(f"stored<{c_type(kind)}>(to + {k * size}, {text});")
    i.to.do("}")


_CHANGES = {
    "exch": "{b}",
    "add": "({T})({T})(({U})before + ({U}){b})",
    "inc": "(before >= {b} ? 0 : before + 1)",
    "min": "lesser<{T}>(before, {b})",
    "max": "greater<{T}>(before, {b})",
}


@instruction("atom", "red")
def atomic(i: Instruction) -> None:
    ignored(i)
    i.take(*_ORDERS), i.take(*_SCOPES)
    space, what, kind = i.take(*_SPACES), i.take(*_CHANGES), i.kind()
    first = 1 if i.statement.opcode == "atom" else 0
    size = BYTES[kind]
    i.to.stop("pause(t)")
    if is_float(kind):
        raise PtxError("an atomic operation on floats")
    own = c_type(kind)
    text = _CHANGES[what].format(T=own, U=c_type(f"b{8 * size}"), b=i.get(first + 1, kind))
    call = f"changed<{own}>({place(i, first, space, size, True)}, [&]({own} before) {{ return ({own})({text}); }})"
    if first:
        i.put(0, kind, call)
    else:
        i.to.do(f"{call};")


@instruction("createpolicy")
def policy(i: Instruction) -> None:
    i.left.clear()
    i.put(0, "b64", "0ull")


@instruction("mapa")
def map_address(i: Instruction) -> None:
    i.take("shared::cluster")
    i.put(0, i.kind(), f"mapped({i.get(1, 'b32')}, {i.get(2, 'b32')})")


@instruction("fence")
def fence(i: Instruction) -> None:
    """Nothing: the host's memory has one order for all threads."""
    i.left[:] = [m for m in i.left if m not in ("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "gl",
                                               "sys", "proxy", "async", "alias", "mbarrier_init", "global",
                                               "async::generic", "sync_restrict::shared::cta",
                                               "sync_restrict::shared::cluster",
                                               "shared::cta", "shared::cluster", "async", "generic")]  # fmt: skip


# --- Copies ----------------------------------------------------------------------------------------------------------


def _shared(i: Instruction, at: int) -> str:
    return f"(u32)({i.to.address(i.operands[at])})"


@instruction("cp")
def copies(i: Instruction) -> None:
    i.left.remove("async")
    waits, commits = i.take("wait_group", "wait_all"), i.take("commit_group")
    if commits or waits:
        if waits == "wait_all":
            return i.to.do("commit_copies(t); wait_for_copies(t, 0);")
        return i.to.do(f"wait_for_copies(t, {i.get(0, 'b32')});" if waits else "commit_copies(t);")
    return _bulk(i) if i.take("bulk") else _few_bytes(i)


def _few_bytes(i: Instruction) -> None:
    has_policy = ignored(i)
    i.take("shared", "shared::cta"), i.take("global")
    rest = i.operands[3:-1] if has_policy else i.operands[3:]
    size = i.get(2, "b32")
    taken = size
    register = i.to.register(rest[0]) if rest else None
    if register is not None and register.kind == "pred":
        taken = f"({i.to.get(rest[0], 'pred')} ? 0u : {size})"  # what is to be left out
    elif rest:
        taken = i.to.get(rest[0], "b32")
    i.to.do(f"copy(t, {_shared(i, 0)}, {i.to.address(i.operands[1])}, {size}, {taken});")


def _bulk(i: Instruction) -> None:
    """From global memory into a block's own or another's shared memory."""
    ignored(i)
    i.take("shared::cluster"), i.take("global"), i.take("mbarrier::complete_tx::bytes")
    size, counted = i.get(2, "b32"), _shared(i, 3)
    i.to.do(f"copy_bulk(t, {_shared(i, 0)}, {i.to.address(i.operands[1])}, {size}, {counted});")


@instruction("mbarrier")
def barrier(i: Instruction) -> None:
    i.take("b64")
    what = i.take("init", "arrive", "try_wait")
    i.take("acquire", "release", "relaxed"), i.take("cta", "cluster")
    i.take("shared", "shared::cta", "shared::cluster")
    if what == "init":
        return i.to.do(f"barrier_init(t, {_shared(i, 0)}, {i.get(1, 'b32')});")
    if what == "try_wait":
        if not i.take("parity"):
            raise PtxError("a wait for a state")
        i.to.stop("ask_later(t)")
        return i.put(0, "pred", f"barrier_passed(t, {_shared(i, 1)}, {i.get(2, 'b32')})")
    expects = bool(i.take("expect_tx"))
    if len(i.operands) != 2 + expects:
        raise PtxError("several arrivals at once")
    i.to.stop("pause(t)")
    bytes_ = i.get(2, "b32") if expects else "0"
    return i.put(0, "b64", f"barrier_arrive(t, {_shared(i, 1)}, {bytes_})")


@instruction("st_async")
def store_async(i: Instruction) -> None:
    i.take("weak"), i.take("relaxed"), i.take("cluster")
    i.take("shared::cluster"), i.take("mbarrier::complete_tx::bytes")
    several, kind = i.take("v2", "v4"), i.kind()
    parts, size = i.to.many(i.operands[1]), BYTES[kind]
    if len(parts) != int(several[1:] or 1 if several else 1):
        raise PtxError("as many registers as it stores")
    i.to.stop("pause(t)")
    values = ", ".join(i.to.get(part, f"b{8 * size}") for part in parts)
    i.to.do(f"{{ const {c_type(f'b{8 * size}')} values[] = {{{values}}};")
    i.to.do(f"store_async(t, {_shared(i, 0)}, values, sizeof(values), {_shared(i, 2)}); }}")
