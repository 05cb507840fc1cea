"""All that kernelzoo asks of a backend, over every implementation of this one."""

from kernelzoo.testing import Conformance


class TestWarp(Conformance):
    backends = ("warp",)
