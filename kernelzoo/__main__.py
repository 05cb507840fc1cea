"""``python -m kernelzoo``: the command line, see :mod:`kernelzoo.cli`."""

import sys

from kernelzoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
