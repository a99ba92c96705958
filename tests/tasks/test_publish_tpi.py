"""When a published build counts as made of the same things, and the order of its rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from bystander.schemas.config import load_config
from bystander.schemas.engines import EngineIdentity
from bystander.schemas.tpi import CHECKED
from bystander.tasks.build_rejects import StageRuns
from bystander.tasks.publish_tpi import digest_content, interleave


def digest(revision: str = "1", pack: str = "p", taxonomy: str = "t", others: str = "o") -> str:
    environment: Any = SimpleNamespace(
        engine=lambda role: SimpleNamespace(identity=EngineIdentity(role, "e", "m", revision)),
        pack=SimpleNamespace(digest=pack),
        taxonomy=SimpleNamespace(digest=lambda: taxonomy),
        other_builds=SimpleNamespace(digest=others),
    )
    return digest_content(load_config("fake"), environment, StageRuns([]), ["row-1"])


def test_engines_pack_taxonomy_and_other_builds_are_part_of_the_content() -> None:
    assert digest() == digest()
    assert len({digest(), digest(revision="2"), digest(pack="q"), digest(taxonomy="u"), digest(others="p")}) == 5


def make_tables(prefix: str, sizes: list[int]) -> list[pa.Table]:
    """Return tables of so many rows each, numbered through in `id`; all other columns are null."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    ids = [pa.array([f"{prefix}{start + i}" for i in range(size)]) for start, size in zip(starts, sizes, strict=True)]
    return [
        pa.Table.from_arrays([i if f.name == "id" else pa.nulls(len(i), f.type) for f in CHECKED], schema=CHECKED)
        for i in ids
    ]


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1] * 7])
def test_hard_negatives_are_spread_alike_whatever_the_sizes_of_the_tables(sizes: list[int]) -> None:
    for single_sizes in ([3], [1, 2]):
        pairs, singles = make_tables("p", sizes), make_tables("s", single_sizes)
        tables = list(interleave(iter(pairs), 7, iter(singles), 3))
        ids = pa.concat_tables(tables)["id"].to_pylist()
        assert ids == ["p0", "s0", "p1", "p2", "p3", "s1", "p4", "p5", "s2", "p6"]
