"""How long a plan takes, for a finished build of the fake profile and some changes to it.

    bystander build tpi-train --profile fake --rows 5000 --set stages.draw_scenarios.draws_per_query=26 --name big \
        --out STORE
    python benchmarks/rebuild_times.py STORE
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from bystander.flows.build_tpi_train import foresee_build_tpi_train
from bystander.schemas.config import load_config, resize

CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "length of replies": {"stages.write_replies.max_words": 30},
    "voices": {"engines.speech.voices": 12},
    "partitions of 200 rows": {"partition_rows": 200},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("store", help="store of the build")
    parser.add_argument("--rows", type=int, default=5000)
    arguments = parser.parse_args()
    for change, fields in CHANGES.items():
        given = {"store": arguments.store, "build": "big", "stages.draw_scenarios.draws_per_query": 26, **fields}
        config = resize(load_config("fake", overrides=given), arguments.rows)
        wall, cpu = time.monotonic(), time.process_time()
        plan = foresee_build_tpi_train(config)
        print(
            f"{change}: {plan.verdict}, {plan.made:,} rows through stages, {time.monotonic() - wall:.1f} s, "
            f"{time.process_time() - cpu:.1f} s of CPU"
        )


if __name__ == "__main__":
    main()
