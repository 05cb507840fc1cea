"""Branches, and where threads meet: lanes of a warp, a block's barriers, a cluster's."""

from .text import PtxError
from .writing import Instruction, c_type, instruction


@instruction("ret")
def end(i: Instruction) -> None:
    i.take("uni")
    i.to.do("return ENDED;")


@instruction("trap")
def trap(i: Instruction) -> None:
    i.to.do(f't.statement = {len(i.to.statements) - 1}; fail("trap");')


@instruction("griddepcontrol")
def dependent(i: Instruction) -> None:
    """Launches come one after the other here; that one waits for those before it is noted."""
    if i.take("wait", "launch_dependents") == "wait":
        i.to.do("t.goes_on = true;")


def _lanes(i: Instruction, what: str, mask: str, *values: str) -> None:
    number = len(i.to.statements) - 1
    i.to.stop(f"meet_lanes(t, {', '.join([what, mask, str(number), *values])})")


@instruction("shfl")
def shuffle(i: Instruction) -> None:
    i.take("sync")
    how, kind = i.take("up", "down", "bfly", "idx"), i.kind()
    name = {"up": "UP", "down": "DOWN", "bfly": "XOR", "idx": "INDEX"}[how]
    value, by, limit, mask = (i.get(k, "b32") for k in (1, 2, 3, 4))
    _lanes(i, f"SHUFFLE_{name}", mask, value, by, limit)
    to, _, inside = i.operands[0].partition("|")
    i.to.put(to.strip(), kind, f"({c_type(kind)})t.received[0]")
    if inside:
        i.to.put(inside.strip(), "pred", "t.agreed")


@instruction("redux")
def reduce(i: Instruction) -> None:
    i.take("sync")
    how, kind = i.take("add", "min", "max"), i.kind()
    sign = "_SIGNED" if kind[0] == "s" else "_UNSIGNED"
    name = {"add": "SUM", "min": f"LEAST{sign}", "max": f"LARGEST{sign}"}[how]
    _lanes(i, "REDUCE", i.get(2, "b32"), i.get(1, "b32"), name)
    i.put(0, "b32", "(u32)t.received[0]")


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
    i.take("cta")
    if i.take("warp"):
        i.take("sync")
        return _lanes(i, "SYNC", i.get(0, "b32"))
    i.take("sync")
    threads = i.get(1, "b32") if len(i.operands) == 2 else "0"
    return i.to.stop(f"sync_threads(t, {i.get(0, 'b32')}, {threads})")


def _cluster(i: Instruction) -> None:
    what = i.take("arrive", "wait")
    i.take("release", "relaxed", "acquire"), i.take("aligned")
    if what == "arrive":
        return i.to.do("cluster_arrive(t);")
    return i.to.stop("cluster_wait(t)")
