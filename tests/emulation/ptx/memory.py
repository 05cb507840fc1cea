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


@instruction("ld", "ldu")
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
    "dec": "(before == 0 || before > {b} ? {b} : before - 1)",
    "min": "lesser<{T}>(before, {b})",
    "max": "greater<{T}>(before, {b})",
    "and": "before & {b}",
    "or": "before | {b}",
    "xor": "before ^ {b}",
    "cas": "(before == {b} ? {c} : before)",
}


@instruction("atom", "red")
def atomic(i: Instruction) -> None:
    ignored(i)
    i.take(*_ORDERS), i.take(*_SCOPES), i.take("noftz")
    space, what, kind = i.take(*_SPACES), i.take(*_CHANGES), i.kind()
    first = 1 if i.statement.opcode == "atom" else 0
    size = BYTES[kind]
    i.to.stop("pause(t)")
    if is_float(kind) and what in ("exch", "cas"):
        kind = f"b{8 * size}"
    own = c_type(kind)
    b = i.get(first + 1, kind)
    c = i.get(first + 2, kind) if what == "cas" else ""
    text = _CHANGES[what].format(T=own, U=c_type(f"b{8 * size}"), b=b, c=c)
    if kind.endswith("x2"):
        text = (
            f"each<{kind[:-2]}>(before, {b}, 0, []({kind[:-2]} a, {kind[:-2]} b, {kind[:-2]}) {{ return add(a, b); }})"
        )
    elif is_float(kind):
        text = {"add": f"add(before, {b})", "min": f"least(before, {b})", "max": f"largest(before, {b})"}[what]
        if kind == "f32" and what == "add" and space == "global":  # it flushes there, and only there
            text = f"ftz(add(ftz(before), ftz({b})))"
    call = f"changed<{own}>({place(i, first, space, size, True)}, [&]({own} before) {{ return ({own})({text}); }})"
    if first:
        i.put(0, kind, call)
    else:
        i.to.do(f"{call};")


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def hint(i: Instruction) -> None:
    i.left.clear()


@instruction("createpolicy")
def policy(i: Instruction) -> None:
    i.left.clear()
    i.put(0, "b64", "0ull")


@instruction("mapa")
def map_address(i: Instruction) -> None:
    kind, shared = i.kind(), i.take("shared::cluster")
    name = "mapped" if shared else "mapped_generic"
    word = "b32" if BYTES[kind] == 4 else "b64"
    i.put(0, word, f"({c_type(word)}){name}({i.get(1, 'b32' if shared else 'b64')}, {i.get(2, 'b32')})")


@instruction("fence", "membar")
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
    bulk = i.take("bulk")
    waits, commits = i.take("wait_group", "wait_all"), i.take("commit_group")
    if bulk and (waits or commits):
        i.take("read")
        call = f"wait_for_bulk(t, {i.operands[0]})" if waits else "commit_bulk(t)"
        return i.to.do(f"{call};")
    if commits or waits:
        if waits == "wait_all":
            return i.to.do("commit_copies(t); wait_for_copies(t, 0);")
        return i.to.do(f"wait_for_copies(t, {i.get(0, 'b32')});" if waits else "commit_copies(t);")
    if i.take("mbarrier") and i.take("arrive"):
        counted = not i.take("noinc")
        i.take("shared", "shared::cta"), i.take("b64")
        return i.to.do(f"arrive_behind_copies(t, {_shared(i, 0)}, {str(counted).lower()});")
    return _bulk(i) if bulk else _few_bytes(i)


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
    ignored(i)
    if i.take("prefetch"):
        i.left.clear()
        return None
    if i.left[:2] in (["global", "shared::cta"],) and "bulk_group" in i.left:
        i.left.clear()
        return i.to.do(f"store_bulk(t, {i.to.address(i.operands[0])}, {_shared(i, 1)}, {i.get(2, 'b32')});")
    to, from_ = i.left[:2]
    del i.left[:2]
    i.take("mbarrier::complete_tx::bytes")
    many = i.take("multicast::cluster")
    if to in ("shared::cluster", "shared::cta") and from_ == "global":
        blocks = i.get(4, "b16") if many else "0"
        return i.to.do(f"copy_bulk(t, {_shared(i, 0)}, {i.to.address(i.operands[1])}, {i.get(2, 'b32')}, "
                       f"{_shared(i, 3)}, {blocks});")  # fmt: skip
    if to == "shared::cluster" and from_ == "shared::cta":
        return i.to.do(f"copy_bulk_between(t, {_shared(i, 0)}, {_shared(i, 1)}, {i.get(2, 'b32')}, {_shared(i, 3)});")
    raise PtxError("a bulk copy of this kind")


@instruction("mbarrier")
def barrier(i: Instruction) -> None:
    i.take("b64")
    what = i.take("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait")
    i.take("acquire", "release", "relaxed"), i.take("cta", "cluster")
    i.take("shared", "shared::cta", "shared::cluster")
    if what == "init":
        return i.to.do(f"barrier_init(t, {_shared(i, 0)}, {i.get(1, 'b32')});")
    if what == "inval":
        return i.to.do(f"barrier_invalid(t, {_shared(i, 0)});")
    if what in ("test_wait", "try_wait"):
        by_parity = i.take("parity")
        i.to.stop("ask_later(t)")
        phase = i.get(2, "b32") if by_parity else f"(u32)({i.get(2, 'b64')} >> 63)"
        return i.put(0, "pred", f"barrier_passed(t, {_shared(i, 1)}, {phase})")
    if what in ("expect_tx", "complete_tx"):
        bytes_, sign = i.get(1, "b32"), "" if what == "expect_tx" else "-"
        return i.to.do(f"barrier_expect(t, {_shared(i, 0)}, {sign}{bytes_});")
    i.to.stop("pause(t)")
    expects, last = i.take("expect_tx"), i.operands[2:]
    if i.take("noComplete"):
        pass  # that it completes none is the program's own affair
    count = i.to.get(last[0], "b32") if last and not expects else "1"
    bytes_ = i.to.get(last[0], "b32") if expects else "0"
    i.put(0, "b64", f"barrier_arrive(t, {_shared(i, 1)}, {count}, {str(what == 'arrive_drop').lower()}, {bytes_})")
    return None


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
