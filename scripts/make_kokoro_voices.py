"""Write the English Kokoro voices as small factors: `src/bystander/tasks/engines/data/kokoro_voices.npz`.

Usage: python scripts/make_kokoro_voices.py FOLDER, where FOLDER is `package/voices` of the npm package kokoro-js 1.2.1
(Apache-2.0), one `<voice>.bin` each: 510 style rows of 256 float32, one row a number of tokens.

A voice's rows are of numerical rank 8, so that two factors in half precision reproduce them to about 1e-3 (values reach
1): 28 voices fit into 340 KB. The file is the same whenever it is made from the same folder with the same LAPACK.
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
TARGET = Path(__file__).parents[1] / "src/bystander/tasks/engines/data/kokoro_voices.npz"


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
    folder = parser.parse_args().folder
    paths = sorted(path for accent in ("af", "am", "bf", "bm") for path in folder.glob(f"{accent}_*.bin"))
    if not paths:
        print(f"{folder}: holds no English voices (af_*.bin and so on)", file=sys.stderr)
        return 2
    factors = []
    for path in paths:
        values = np.fromfile(path, "<f4")
        if values.size != ROWS * WIDTH:
            print(f"{path}: holds {values.size} values instead of {ROWS * WIDTH}", file=sys.stderr)
            return 2
        factors.append(factorise_style(values.reshape(ROWS, WIDTH)))
    np.savez(
        TARGET,
        voices=np.array([path.stem for path in paths]),
        rows=np.stack([rows for rows, _ in factors]),
        columns=np.stack([columns for _, columns in factors]),
    )
    print(f"{TARGET.name}: {len(paths)} voices, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
