"""The check of a machine's devices for languages that support only NVIDIA. It imports no package itself."""

from typing import Any

from kernelzoo.errors import BackendUnavailableError


def check_devices(backend: str, torch: Any, least: tuple[int, int]) -> None:
    """Raise BackendUnavailableError unless torch has CUDA devices, all of at least that compute capability."""
    if torch.version.hip is not None:
        why = "its kernels are for NVIDIA's devices, and this is ROCm"
        raise BackendUnavailableError(backend, why, "use kernelzoo.get('triton')")
    if not torch.cuda.is_available():
        raise BackendUnavailableError(
            backend,
            "torch sees no CUDA device",
            "it needs an NVIDIA GPU, its driver (check nvidia-smi) and a torch built for CUDA",
        )
    oldest = min(torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count()))
    if oldest < least:
        needed, had = (".".join(map(str, one)) for one in (least, oldest))
        raise BackendUnavailableError(
            backend,
            f"its kernels need compute capability {needed}, and a device here has {had}",
            "hide that device with CUDA_VISIBLE_DEVICES, or use kernelzoo.get('triton')",
        )
