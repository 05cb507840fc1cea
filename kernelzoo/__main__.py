"""``python -m kernelzoo``: the command line, see :mod:`kernelzoo.cli`."""

import os
import sys

# Python puts the working directory first for -m: a file there must not pass for a language that a command imports.
if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]

from kernelzoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
