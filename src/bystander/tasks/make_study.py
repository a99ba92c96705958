"""Makes a study out of a finished bench and, where replies are rated, out of evaluations of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bystander.pages.study_page import MOST_PLATFORM_BYTES, render_study_page
from bystander.schemas.errors import InputError
from bystander.schemas.identity import digest_json, make_rng
from bystander.schemas.study import (
    StudyFile,
    StudyKey,
    StudyManifest,
    StudySettings,
    StudySource,
    StudyWording,
)
from bystander.storage.bench_rows import Bench, read_bench, read_clips
from bystander.storage.build_manifest import get_code_version
from bystander.storage.filesystem import Store, open_store
from bystander.storage.study_files import (
    ANSWERS,
    CLIPS,
    KEY_NAME,
    PAGE_NAME,
    SHEETS_NAME,
    STUDIES,
    STUDY_NAME,
    TASKS_NAME,
    encode_sheet,
    format_tasks,
    keep_salt,
    write_file,
    write_key,
    write_study,
)
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.studies.clips import encode_clip, make_noise
from bystander.tasks.studies.items import DrawnItems, draw_items
from bystander.tasks.studies.planning import expect_half_width
from bystander.tasks.studies.replies import read_replies
from bystander.tasks.studies.sheets import SheetMaker, Sheets

_NOISES = 5


@dataclass(frozen=True, slots=True)
class MadeStudy:
    """The study's folder and manifest, and sentences about it."""

    folder: Store
    manifest: StudyManifest
    summary: Sequence[str]


def make_study(store: str, name: str, settings: StudySettings, wording: StudyWording) -> MadeStudy:
    """Write a study to `<store>/studies/<name>` and return it.

    The same settings over the same bench give the same sheets. A study that has answers is not made anew.

    Raises:
        InputError: the settings ask for what the bench or the evaluations do not have, or there are answers.
        BuildError: the bench or an evaluation is unfinished or damaged.
    """
    folder = open_store(store).child(STUDIES, name)
    if folder.list(ANSWERS):
        raise InputError(f"{folder.uri}: has answers already; give the new study another --name")
    bench = read_bench(settings.bench, settings.tests)
    replies, evaluations = read_replies(bench, settings)
    drawn = draw_items(bench.rows, replies, settings, wording)
    if folder.exists(STUDY_NAME):
        folder.remove(STUDY_NAME)  # unfinished from here on
    folder.remove(CLIPS, recursive=True)
    clips, files = _write_clips(folder, bench, drawn, settings) if settings.hears else ({}, [])
    noises = _write_noises(folder, settings, files) if "noise" in settings.traps and settings.hears else []
    sheets = SheetMaker(name, settings, wording, drawn, replies, clips, noises, bench.rows).make()
    page = render_study_page(name, settings, wording)
    keep_salt(folder)
    key = StudyKey(items=drawn.items, sheets=dict(sheets.cells))
    files += [
        write_file(folder, TASKS_NAME, format_tasks(sheets.shown).encode()),
        write_file(folder, SHEETS_NAME, _format_sheets(sheets)),
        write_file(folder, PAGE_NAME, page.encode()),
        write_key(folder, key),
    ]
    ratings = sum(cell.trap is None for cells in sheets.cells.values() for cell in cells)
    manifest = StudyManifest(
        name=name,
        settings=settings,
        wording=wording,
        bench=StudySource(uri=bench.store.uri, name=bench.manifest.build, content_digest=bench.manifest.content_digest),
        evaluations=evaluations,
        systems=tuple(replies),
        items=len(drawn.items),
        sheets=len(sheets.shown),
        ratings=ratings,
        left_out=dict(drawn.left_out),
        files=tuple(files),
        code_version=get_code_version(),
    )
    write_study(folder, manifest)
    return MadeStudy(folder, manifest, _summarise(folder, manifest, drawn, sheets, page))


def _write_clips(
    folder: Store, bench: Bench, drawn: DrawnItems, settings: StudySettings
) -> tuple[dict[str, str], list[StudyFile]]:
    """Write the clips of the drawn rows under names that say nothing."""
    clips, files = {}, []
    wanted = pa.array(sorted(drawn.rows))
    for table in read_clips(bench, 64):
        rows = table.filter(pa.compute.is_in(table["id"], value_set=wanted))
        for row in rows.select(["id", "audio"]).to_pylist():
            samples, rate = decode_audio(row["audio"]["bytes"])
            clips[row["id"]] = _name_clip(settings, row["id"])
            data = encode_clip(samples, rate, settings.clip_format)
            files.append(write_file(folder, f"{CLIPS}/{clips[row['id']]}", data))
    return clips, files


def _write_noises(folder: Store, settings: StudySettings, files: list[StudyFile]) -> list[str]:
    names = []
    for number in range(_NOISES):
        name = _name_clip(settings, f"noise-{number}")
        samples, rate = make_noise(number, make_rng(settings.seed, f"noise-{number}", "study"))
        files.append(write_file(folder, f"{CLIPS}/{name}", encode_clip(samples, rate, settings.clip_format)))
        names.append(name)
    return names


def _name_clip(settings: StudySettings, what: str) -> str:
    return f"clip-{digest_json([settings.seed, what])[:12]}.{settings.clip_format}"


def _format_sheets(sheets: Sheets) -> bytes:
    lines = ",\n".join(
        json.dumps(sheet.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")) for sheet in sheets.shown
    )
    return f"[\n{lines}\n]\n".encode()


def _summarise(folder: Store, manifest: StudyManifest, drawn: DrawnItems, sheets: Sheets, page: str) -> list[str]:
    settings = manifest.settings
    traps = sum(cell.trap is not None for cells in sheets.cells.values() for cell in cells)
    lines = [f"{folder.uri}: {manifest.items} items, {manifest.sheets} sheets, {traps} traps among them."]
    for reason, count in drawn.left_out.items():
        lines.append(f"Left out: {count} rows ({reason}).")
    if settings.layout == "item":
        times = -(-settings.raters * settings.per_rater // manifest.items)
        lines.append(f"Each line of {TASKS_NAME} is one item: ask the platform for {times} assignments of each.")
    else:
        lines.append(f"Each line of {TASKS_NAME} is one rater's sheet: ask the platform for 1 assignment of each.")
    plain = expect_half_width(settings.sd, settings.raters, settings.per_rater)
    careful = expect_half_width(settings.sd, settings.raters, settings.per_rater, settings.rater_correlation)
    lines.append(
        f"Expected 95 % interval of a mean over all ratings: ± {plain:.3f} if they were independent, ± {careful:.3f} "
        f"if those of one rater correlate by {settings.rater_correlation:g} (standard deviation {settings.sd:g})."
    )
    largest = len(page.encode()) + max(len(encode_sheet(sheet)) for sheet in sheets.shown)
    if largest > MOST_PLATFORM_BYTES:
        lines.append(
            f"{PAGE_NAME} with its longest sheet has {largest} bytes; Mechanical Turk takes {MOST_PLATFORM_BYTES}: "
            "give fewer ratings to each rater there."
        )
    if settings.hears and "://" not in settings.clips_url:
        lines.append(f"Upload {CLIPS}/ and make the study again with --clips-url, or use `study serve`.")
    lines.append(f"{KEY_NAME} tells traps and systems: keep it from raters.")
    return lines
