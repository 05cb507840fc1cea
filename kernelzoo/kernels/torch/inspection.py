"""torch's kernels can't be inspected: they belong to its libraries, or are made by its own compiler."""

from contextlib import AbstractContextManager, nullcontext

from kernelzoo.device import Device


def refusal(variant: str, arch: str) -> str:
    """Return why no kernel can be shown, and what can be done instead."""
    if variant == "compile":
        return (
            "runs what torch.compile makes, and only for the device at hand; with TORCH_LOGS=output_code it prints the "
            "source when it compiles"
        )
    return (
        "runs kernels of torch's own libraries, whose source is not here; torch.profiler names them, and the "
        "implementations of other backends can be inspected"
    )


def target(device: Device) -> AbstractContextManager[None]:
    """Return a context that does nothing, since nothing is compiled."""
    return nullcontext()
