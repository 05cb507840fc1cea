import sys
from pathlib import Path

# Test modules are imported by path, each by itself: this is how they find the helpers beside them.
sys.path.insert(0, str(Path(__file__).parent))
