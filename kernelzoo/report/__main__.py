"""``python -m kernelzoo.report``: the same as ``kernelzoo report``."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "report")
    runpy.run_module("kernelzoo", run_name="__main__", alter_sys=True)
