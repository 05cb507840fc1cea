"""Branches, and where threads meet: lanes of a warp, a block's barriers, a cluster's."""

from .text import BYTES, PtxError
from .writing import Instruction, c_type, instruction


@instruction("ret", "exit")
def end(i: Instruction) -> None:
    i.take("uni")
    i.to.do("return ENDED;")


@instruction("trap", "brkpt")
def trap(i: Instruction) -> None:
    i.to.do(f't.statement = {len(i.to.statements) - 1}; fail("{i.statement.opcode}");')


@instruction("griddepcontrol")
def dependent(i: Instruction) -> None:
    """Launches come one after the other here; that one waits for those before it is noted."""
    if i.take("wait", "launch_dependents") == "wait":
        i.to.do("t.goes_on = true;")


@instruction("setmaxnreg", "nanosleep")
def of_no_concern(i: Instruction) -> None:
    sleeps = i.statement.opcode == "nanosleep"
    i.left.clear()
    if sleeps:
        i.to.stop("ask_later(t)")


def _lanes(i: Instruction, what: str, mask: str, *values: str) -> None:
    number = len(i.to.statements) - 1
    i.to.stop(f"meet_lanes(t, {', '.join([what, mask, str(number), *values])})")


def _two(i: Instruction) -> tuple[str, str]:
    """A destination ``d|p``; an empty name where there is none."""
    d, _, p = i.operands[0].partition("|")
    return d.strip(), p.strip()


@instruction("shfl")
def shuffle(i: Instruction) -> None:
    i.take("sync")
    how, kind = i.take("up", "down", "bfly", "idx"), i.kind()
    name = {"up": "UP", "down": "DOWN", "bfly": "XOR", "idx": "INDEX"}[how]
    value, by, limit, mask = (i.get(k, "b32") for k in (1, 2, 3, 4))
    _lanes(i, f"SHUFFLE_{name}", mask, value, by, limit)
    d, p = _two(i)
    i.to.put(d, kind, f"({c_type(kind)})t.received[0]")
    if p:
        i.to.put(p, "pred", "t.agreed")


@instruction("vote")
def vote(i: Instruction) -> None:
    i.take("sync")
    how = i.take("all", "any", "uni", "ballot")
    i.take("pred"), i.take("b32")
    name = {"all": "ALL", "any": "ANY", "uni": "UNIFORM", "ballot": "BALLOT"}[how]
    _lanes(i, name, i.get(2, "b32"), i.get(1, "pred"))
    if how == "ballot":
        return i.put(0, "b32", "(u32)t.received[0]")
    return i.put(0, "pred", "t.agreed")


@instruction("match")
def match(i: Instruction) -> None:
    i.take("sync")
    how, kind = i.take("any", "all"), i.kind()
    _lanes(i, f"MATCH_{how.upper()}", i.get(2, "b32"), i.get(1, kind))
    d, p = _two(i)
    i.to.put(d, "b32", "(u32)t.received[0]")
    if p:
        i.to.put(p, "pred", "t.agreed")


@instruction("redux")
def reduce(i: Instruction) -> None:
    i.take("sync")
    how, kind = i.take("add", "min", "max", "and", "or", "xor"), i.kind()
    sign = "_SIGNED" if kind[0] == "s" else "_UNSIGNED"
    name = {"add": "SUM", "min": f"LEAST{sign}", "max": f"LARGEST{sign}"}.get(how, how.upper())
    _lanes(i, "REDUCE", i.get(2, "b32"), i.get(1, "b32"), name)
    i.put(0, "b32", "(u32)t.received[0]")


@instruction("elect")
def elect(i: Instruction) -> None:
    i.take("sync")
    _lanes(i, "ELECT", i.get(1, "b32"))
    d, p = _two(i)
    i.to.put(d, "b32", "(u32)t.received[0]")
    i.to.put(p, "pred", "t.agreed")


@instruction("activemask")
def active(i: Instruction) -> None:
    """The lane alone: which others are with it is left to chance, here as there."""
    i.take("b32")
    i.put(0, "b32", "(1u << t.lane)")


@instruction("ldmatrix", "stmatrix")
def matrices(i: Instruction) -> None:
    i.take("sync"), i.take("aligned"), i.take("m8n8")
    count, across = int(i.take("x1", "x2", "x4")[1:]), bool(i.take("trans"))
    i.take("shared", "shared::cta"), i.take("b16")
    loads = i.statement.opcode == "ldmatrix"
    parts = i.to.many(i.operands[0 if loads else 1])
    if len(parts) != count:
        raise PtxError("as many registers as matrices")
    head = f"((u64)(u32)({i.to.address(i.operands[1 if loads else 0])}) << 8 | {count | 8 * across})"
    values = [] if loads else [i.to.get(part, "b32") for part in parts]
    _lanes(i, "LOAD_MATRIX" if loads else "STORE_MATRIX", "0xffffffffu", head, *values)
    if loads:
        for k, part in enumerate(parts):
            i.to.put(part, "b32", f"(u32)t.received[{k}]")


@instruction("bar", "barrier")
def barrier(i: Instruction) -> None:
    if i.take("cluster"):
        return _cluster(i)
    i.take("cta"), i.take("aligned")
    if i.take("warp"):
        i.take("sync")
        return _lanes(i, "SYNC", i.get(0, "b32"))
    what = i.take("sync", "arrive", "red")
    if what == "red":
        how = i.take("popc", "and", "or")
        i.take("u32", "pred")
        threads = i.get(2, "b32") if len(i.operands) == 4 else "0"
        wish = i.to.get(i.operands[-1], "pred")
        name = {"popc": "COUNT", "and": "EVERY", "or": "SOME"}[how]
        i.to.stop(f"sync_threads(t, {i.get(1, 'b32')}, {threads}, {name}, {wish})")
        if how == "popc":
            return i.put(0, "b32", "(u32)t.received[0]")
        return i.put(0, "pred", "t.agreed")
    threads = i.get(1, "b32") if len(i.operands) == 2 else "0"
    if what == "arrive":
        return i.to.do(f"arrive_threads(t, {i.get(0, 'b32')}, {threads});")
    return i.to.stop(f"sync_threads(t, {i.get(0, 'b32')}, {threads})")


def _cluster(i: Instruction) -> None:
    what = i.take("arrive", "wait")
    i.take("release", "relaxed", "acquire"), i.take("aligned")
    if what == "arrive":
        return i.to.do("cluster_arrive(t);")
    return i.to.stop("cluster_wait(t)")


@instruction("getctarank")
def rank(i: Instruction) -> None:
    kind, shared = i.kind(), i.take("shared::cluster")
    word = f"(u32){i.get(1, 'b32' if shared or BYTES[kind] == 4 else 'b64')}"
    i.put(0, "u32", f"({word} >> 24 ? ({word} >> 24) - 1 : rank_in_cluster(t))")
