"""``python -m kernelzoo``: the command line; see :mod:`kernelzoo.cli`."""

import os
import sys

# With -m, Python puts the working directory first on the path. A file there must not be imported as a language.
if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]

from kernelzoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
