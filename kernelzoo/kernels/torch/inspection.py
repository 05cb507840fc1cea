"""Why there is nothing to show of torch: its kernels are its libraries', or made by its own compiler."""

from kernelzoo.errors import InspectionError
from kernelzoo.inspect import Kernel, Request, answer


def kernels(request: Request) -> tuple[Kernel, ...]:
    """Always raises InspectionError, with what can be done instead."""
    if request.variant == "compile":
        raise InspectionError(
            f"{request.id} runs what torch.compile makes, and only for the device at hand; with TORCH_LOGS=output_code "
            "it prints the source when it compiles"
        )
    raise InspectionError(
        f"{request.id} runs kernels of torch's own libraries, whose source is not here; torch.profiler names them, and "
        "the implementations of other backends can be inspected"
    )


if __name__ == "__main__":
    answer(kernels)
