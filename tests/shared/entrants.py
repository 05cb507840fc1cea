"""Registers every adversary that races, and an honest kernel in Triton, in a process that a guard starts."""

import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from adversaries import ADVERSARIES

import kernelzoo

entrants = {adversary.id: adversary.made() for adversary in ADVERSARIES}
with suppress(ImportError):
    from adversaries_triton import TRITON, Bind, honest

    entrants |= {adversary.id: adversary.made() for adversary in TRITON}
    entrants["adversary/softmax/honest"] = Bind(honest)
for id, bind in entrants.items():
    kernelzoo.register("adversary", "softmax", id.rpartition("/")[2])(bind)
