"""How much memory this process takes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_MIB = 1 << 20


def measure_resident_mib() -> float:
    """Return the resident memory now in MiB; where the system does not tell, the most that it ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * resource.getpagesize() / _MIB
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / _MIB if sys.platform == "darwin" else peak / 1024
