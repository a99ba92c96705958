"""Write Kokoro voices as small factors: `kokoro_voices.npz` (English) or `kokoro_voices_zh.npz` (Mandarin).

Both are in `src/bystander/tasks/engines/data`. Each language has a file of its own, since the digest of the English one
is part of what identifies the engine, and so of what was cached.

Usage: python scripts/make_kokoro_voices.py FOLDER [--language en|zh], where FOLDER is `package/voices` of the npm
package kokoro-js 1.2.1 (Apache-2.0), one `<voice>.bin` each: 510 style rows of 256 float32, one row a number of tokens.

A voice's rows are of numerical rank 8, so that two factors in half precision reproduce them to about 1e-3 (values reach
1): 28 voices fit into 340 KB, 8 into 100 KB. A file is the same whenever it is made from the same folder with the same
LAPACK.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

RANK = 8
ROWS, WIDTH = 510, 256
MAX_ERROR = 2e-3
DATA = Path(__file__).parents[1] / "src/bystander/tasks/engines/data"
TARGETS = {"en": DATA / "kokoro_voices.npz", "zh": DATA / "kokoro_voices_zh.npz"}
GROUPS = {"en": ("af", "am", "bf", "bm"), "zh": ("zf", "zm")}


def factorise_style(style: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    """Return factors of shapes (510, 8) and (8, 256) whose product is the style within `MAX_ERROR`.

    Raises:
        ValueError: it is not.
    """
    left, sizes, right = np.linalg.svd(style.astype(np.float64), full_matrices=False)
    scale = np.sqrt(sizes[:RANK])
    rows = (left[:, :RANK] * scale).astype(np.float16)
    columns = (scale[:, None] * right[:RANK]).astype(np.float16)
    error = float(np.abs(rows.astype(np.float32) @ columns.astype(np.float32) - style).max())
    if error > MAX_ERROR:
        raise ValueError(f"error {error:.4f} is above {MAX_ERROR}")
    return rows, columns


def main() -> int:
    """Read the folder, write the file, print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--language", choices=sorted(TARGETS), default="en")
    arguments = parser.parse_args()
    folder, groups, target = arguments.folder, GROUPS[arguments.language], TARGETS[arguments.language]
    paths = sorted(path for group in groups for path in folder.glob(f"{group}_*.bin"))
    if not paths:
        print(f"{folder}: holds no voices of {arguments.language} ({groups[0]}_*.bin and so on)", file=sys.stderr)
        return 2
    factors = []
    for path in paths:
        values = np.fromfile(path, "<f4")
        if values.size != ROWS * WIDTH:
            print(f"{path}: holds {values.size} values instead of {ROWS * WIDTH}", file=sys.stderr)
            return 2
        factors.append(factorise_style(values.reshape(ROWS, WIDTH)))
    np.savez(
        target,
        voices=np.array([path.stem for path in paths]),
        rows=np.stack([rows for rows, _ in factors]),
        columns=np.stack([columns for _, columns in factors]),
    )
    print(f"{target.name}: {len(paths)} voices, {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
