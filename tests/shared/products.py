"""An operation of its own, whose work costs far more than reading its inputs."""

import kernelzoo
from kernelzoo import Input, Output


@kernelzoo.operation(dtypes=("float32",))
class product:
    """The matrix product of two matrices."""

    a = Input("M K")
    b = Input("K N")
    out = Output("M N")

    @staticmethod
    def reference(a, b):
        return a @ b

    @staticmethod
    def error(a, b, unit):
        return 64 * unit * (a.abs() @ b.abs()) + 1e-2 * (a.abs() @ b.abs()) * (a.is_cuda)
