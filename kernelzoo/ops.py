"""The former place of :mod:`kernelzoo.operations`, for what still imports it."""

from kernelzoo.device import attached, on_device_of, on_its_device  # noqa: F401
from kernelzoo.launch import Bind, Launch, in_halves, owning, sequence, void  # noqa: F401
from kernelzoo.operations import *  # noqa: F403
from kernelzoo.operations.memory import overlap as _overlap  # noqa: F401
from kernelzoo.operations.memory import overlaps_itself as _overlaps_itself  # noqa: F401
from kernelzoo.operations.operation import axes_of as _axes  # noqa: F401
