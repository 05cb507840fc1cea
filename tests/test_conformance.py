from kernelzoo.testing import Conformance


class TestConformance(Conformance):
    pass
