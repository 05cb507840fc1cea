"""What the forms of a minimum's gradient hand to their kernels beside the layout of rows."""

from collections.abc import Iterable

from kernelzoo.layout import Strides


def one_a_row(others: Iterable[Strides]) -> tuple[int, ...]:
    """The strides of tensors that have one element a row: outer and inner of each."""
    return tuple(stride for other in others for stride in (other.outer, other.inner))
