"""Whether a backend can run here, and if not, why not and what mends it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelzoo.errors import BackendUnavailableError, KernelZooError


@dataclass(frozen=True)
class Availability:
    """``devices`` is empty if it can't run here; then ``reason`` says why and ``remedy`` what mends it."""

    backend: str
    devices: tuple[str, ...] = ()
    emulator: str = ""
    """What runs the kernels in place of a device; it is for checking, and never timed."""
    reason: str = ""
    remedy: str = ""

    @property
    def words(self) -> str:
        if self.emulator:
            return f"runs in {self.emulator}: checked, never timed"
        if self.devices:
            return f"runs on {' and '.join(self.devices)}"
        return f"can't run here: {self.reason}; {self.remedy}"


def availability(backend: str) -> Availability:
    """Load the backend, with its language, and see; whatever that raises is the reason."""
    from kernelzoo import registry

    try:
        found = registry.get(backend)
    except BackendUnavailableError as error:
        return Availability(backend, reason=error.reason, remedy=error.remedy)
    except KernelZooError:
        raise
    except ModuleNotFoundError as error:
        return Availability(
            backend,
            reason=f"the package {error.name} is not installed",
            remedy=f"install it with: pip install {error.name}",
        )
    except Exception as error:  # a package that is installed and broken may raise anything as it is imported
        return Availability(
            backend, reason=f"importing it raised {type(error).__name__}: {error}", remedy="reinstall that package"
        )
    return Availability(backend, found.devices, found.emulator)
