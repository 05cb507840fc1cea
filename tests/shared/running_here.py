"""The backends that can run here, and the implementations of each, for tests of all of them."""

import kernelzoo
from kernelzoo.errors import BackendUnavailableError

OURS = ("torch", "cpu", "triton", "gluon", "cutile", "cute", "helion", "cupy", "numba")


def backends() -> dict[str, str]:
    """Their names, and the device to run each on: the GPU where it takes one."""
    found = {}
    for name in OURS:
        try:
            devices = kernelzoo.get(name).devices
        except BackendUnavailableError:
            continue
        found[name] = "cuda" if "cuda" in devices else "cpu"
    return found


def variants(*ops: str) -> list[str]:
    """Ids of all implementations of some operations that can run here."""
    here = backends()
    return [i.id for op in ops for i in kernelzoo.implementations(op=op) if i.backend in here]
