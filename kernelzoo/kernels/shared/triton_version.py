"""Which versions of Triton are taken, by all that is compiled with it. Triton itself is not imported."""

LEAST = (3, 6)
"""The oldest Triton whose interpreter, driver and compiled kernels have what binding and launching here ask of them."""


def too_old(version: str) -> str:
    """Why a version of Triton can't be used, or ""."""
    if tuple(int(number) for number in version.split(".")[:2]) >= LEAST:
        return ""
    return f"triton {version} is older than {'.'.join(map(str, LEAST))}"
