"""Memory that a bind allocates for its launch, which may run on another stream than the one it was bound on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from kernelzoo.registry import Launch


def owning(launch: Launch, *tensors: torch.Tensor) -> Launch:
    """The launch, with tensors of its own that are ready, and safe, on whatever stream it runs on.

    What a bind enqueues, the zeroing of a counter say, it enqueues on the stream that is current then, and that stream
    alone is what torch's allocator asks before it gives the memory to someone else, before the bind and after it. So a
    launch on another stream first waits for that one, once, and has the memory marked as in use there. In a CUDA graph
    it can't wait for what is outside: the bind must have ended, which ``torch.cuda.graph`` sees to.
    """
    if not tensors[0].is_cuda:
        return launch
    import torch

    device: int = tensors[0].get_device()
    current_stream = torch._C._cuda_getCurrentRawStream
    home: int = current_stream(device)
    ready = {home}

    def lend(stream: int) -> None:
        here = torch.cuda.current_stream(device)
        if not torch.cuda.is_current_stream_capturing():
            # 0 is the default stream to the driver, and to torch.cuda.ExternalStream a new one.
            there = torch.cuda.ExternalStream(home, device) if home else torch.cuda.default_stream(device)  # type: ignore[no-untyped-call]
            here.wait_stream(there)
            ready.add(stream)
        for tensor in tensors:
            tensor.record_stream(here)

    def launch_owning() -> None:
        stream: int = current_stream(device)
        if stream not in ready:
            lend(stream)
        launch()

    return launch_owning
