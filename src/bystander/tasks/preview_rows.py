"""Rows that a preview of a pack is about: the package's own, those of a file, or those of a finished build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import islice
from typing import Any

import yaml

from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_id, make_rng
from bystander.schemas.ordering import interleave
from bystander.schemas.pack_preview import SampleRow
from bystander.schemas.taxonomy import Scenario, Taxonomy, Timing
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import MANIFEST_NAME, read_manifest
from bystander.storage.filesystem import Store
from bystander.storage.query_records import DOUBLED, BadRecord
from bystander.storage.record_files import FORMATS, read_records
from bystander.storage.releases import open_build
from bystander.tasks.stages.sentence_cut import cut_sentence

_BUILD_COLUMNS = (
    "id",
    "n_speakers",
    "request",
    "scenario",
    "category",
    "timing",
    "primary_complete",
    "primary_text",
    "third_party_text",
    "reply",
)
_FIELDS = ("id", "primary", "third_party", "request", "scenario", "timing", "spoken", "answer")
_MOST_READ = 100_000


def open_build_of_rows(address: str) -> Store | None:
    """Return the folder of the build at an address, or None where it is the address of a file of rows.

    Raises:
        UserError: it is neither.
    """
    if address.lower().endswith(FORMATS):
        return None
    store = open_build(address)
    if not store.exists(MANIFEST_NAME):
        raise InputError(
            f"rows {address}: neither a finished build (no {MANIFEST_NAME} in it) nor a file ending in "
            f"{', '.join(FORMATS)}"
        )
    return store


def read_sample_rows(
    source: str | Store | None, taxonomy: Taxonomy, scenario: str | None, limit: int, seed: int = 0
) -> list[SampleRow]:
    """Return up to `limit` rows of a build's folder, of a file at a path or URL, or of the package (None).

    Categories take turns in rows of the package and of builds; a file's keep their order. A file has the columns
    `primary` and `third_party`, and may have `id`, `request`, `scenario`, `timing`, `spoken` (what is heard of a
    primary text that is broken off; where it is missing the text is cut as a build with this `seed` cuts it) and
    `answer` (for rubrics). A row that names no scenario is of `scenario`, or of the taxonomy's first.

    Raises:
        InputError: there is no such file, a row of it is wrong (it is named), or no row is left.
        BuildError: the folder is not one of a finished TPI build.
    """
    if scenario is not None and scenario not in taxonomy.keys:
        raise InputError(f"--scenario {scenario!r}: taxonomy {taxonomy.name} has {', '.join(taxonomy.keys)}")
    if isinstance(source, Store):
        rows, where = _read_build(source, scenario, limit), f"build {source.uri}"
    elif source is None:
        rows, where = _read_own(taxonomy), "the package's sample rows"
    else:
        rows, where = _read_file(source, taxonomy, scenario, seed), f"rows {source}"
    wanted = [row for row in rows if scenario in (None, row.scenario)]
    if not wanted:
        there = ", ".join(sorted({row.scenario for row in rows}))
        raise InputError(
            f"{where}: " + (f"no row of scenario {scenario}; there are {there}" if there else "there is no row in it")
        )
    if not isinstance(source, str):
        wanted = _take_turns(wanted)
    return wanted[:limit]


def _take_turns(rows: Sequence[SampleRow]) -> list[SampleRow]:
    categories: dict[str, list[SampleRow]] = {}
    for row in rows:
        categories.setdefault(row.category, []).append(row)
    return interleave(list(categories.values()))


def _read_own(taxonomy: Taxonomy) -> list[SampleRow]:
    """Return the package's rows whose scenario the taxonomy has; where it has none of them, its own examples."""
    text = resources.files("bystander.schemas").joinpath("data/preview_rows.yaml").read_text("utf-8")
    rows = [
        SampleRow(
            id=make_id("sample", row["scenario"]),
            request=row["request"],
            scenario=row["scenario"],
            category=taxonomy[row["scenario"]].category,
            timing=Timing.WITHIN_SENTENCE if "spoken" in row else Timing.AFTER_COMPLETION,
            primary_complete=row["primary"],
            primary_text=row.get("spoken", row["primary"]),
            third_party_text=row["third_party"],
        )
        for row in yaml.safe_load(text)["rows"]
        if row["scenario"] in taxonomy.keys
    ]
    return rows or [_take_example(scenario) for scenario in taxonomy.scenarios]


def _take_example(scenario: Scenario) -> SampleRow:
    example = scenario.examples[0]
    return SampleRow(
        id=make_id("sample", scenario.key),
        request=example.request or example.primary,
        scenario=scenario.key,
        category=scenario.category,
        timing=Timing.AFTER_COMPLETION,
        primary_complete=example.primary,
        primary_text=example.primary,
        third_party_text=example.third_party,
    )


def _read_build(store: Store, scenario: str | None, limit: int) -> list[SampleRow]:
    """Return two-speaker rows of a build: enough for `limit` of them, whatever categories come first in its shards."""
    rows = (row for _, batch in read_columns(store, read_manifest(store), _BUILD_COLUMNS) for row in batch.to_pylist())
    pairs = (row for row in rows if row["n_speakers"] == 2 and scenario in (None, row["scenario"]))
    return [
        SampleRow(
            **{name: value for name, value in row.items() if name not in ("n_speakers", "reply")}, answer=row["reply"]
        )
        for row in islice(pairs, max(50 * limit, 1000))
    ]


def _read_file(path: str, taxonomy: Taxonomy, scenario: str | None, seed: int) -> list[SampleRow]:
    rows = []
    for number, record in islice(read_records(path, "rows"), _MOST_READ):
        where = f"rows {path}: row {number}"
        if not isinstance(record, Mapping):
            fault = record.fault if isinstance(record, BadRecord) else "is no record with columns"
            raise InputError(f"{where}: {fault}")
        rows.append(_make_row(_take_fields(record, where), taxonomy, scenario or taxonomy.keys[0], seed, where))
    return rows


def _take_fields(record: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the texts of a record that are not empty."""
    fields = {}
    for name in _FIELDS:
        value = record.get(name)
        if value is DOUBLED:
            raise InputError(f"{where}: {name} {DOUBLED.fault}")
        if value is not None and not isinstance(value, str):
            raise InputError(f"{where}: {name} is {value!r}, not a text")
        if value and value.strip():
            fields[name] = value.strip()
    missing = [name for name in ("primary", "third_party") if name not in fields]
    if missing:
        raise InputError(f"{where}: has no {' and no '.join(missing)}; rows need primary and third_party")
    return fields


def _make_row(fields: Mapping[str, str], taxonomy: Taxonomy, default: str, seed: int, where: str) -> SampleRow:
    key = fields.get("scenario", default)
    if key not in taxonomy.keys:
        raise InputError(f"{where}: scenario {key!r} is none of taxonomy {taxonomy.name}: {', '.join(taxonomy.keys)}")
    primary, third_party = fields["primary"], fields["third_party"]
    usual = Timing.WITHIN_SENTENCE if "spoken" in fields else Timing.AFTER_COMPLETION
    timing = fields.get("timing", usual.value)
    if timing not in [item.value for item in Timing]:
        raise InputError(f"{where}: timing {timing!r}: write {' or '.join(item.value for item in Timing)}")
    row_id = fields.get("id") or make_id("sample", key, timing, primary, third_party)
    spoken = fields.get("spoken", primary)
    if timing == Timing.WITHIN_SENTENCE.value and "spoken" not in fields:
        # As `write_interruptions` cuts it.
        cut = cut_sentence(primary, make_rng(seed, row_id, "write_interruptions", "cut"))
        if cut is None:
            raise InputError(f"{where}: {primary!r} has too few words to be broken off within the sentence")
        spoken = cut
    return SampleRow(
        id=row_id,
        request=fields.get("request", primary),
        scenario=key,
        category=taxonomy[key].category,
        timing=Timing(timing),
        primary_complete=primary,
        primary_text=spoken,
        third_party_text=third_party,
        answer=fields.get("answer"),
    )
