"""Label Studio's formats: a labelling configuration, tasks to import there, and what its JSON export says.

Tasks and results are as https://labelstud.io/guide/task_format describes them. Audio regions are results of the type
`labels` with `start` and `end` in seconds; verdict and reason are `choices`; texts are `textarea`s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from pydantic import ValidationError

from bystander.schemas.errors import InputError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.review import (
    REASONS_IN_WORDS,
    ReviewedSegment,
    ReviewKind,
    RowEdits,
    RowReview,
    list_reasons,
    normalise_annotator,
)
from bystander.schemas.review_rows import TEXT_TITLES, ListedRow
from bystander.schemas.text_tasks import BREAK_TAG

BREAK_LABEL = "after_break"
"""Label of the region of a SID clip from its break to its end."""
_LABELS: Mapping[ReviewKind, Mapping[str, str]] = {
    "tpi": {"primary": "#1f6fb8", "third_party": "#c25a12"},
    "sid": {BREAK_LABEL: "#c25a12"},
}
_TEXTS: Mapping[ReviewKind, tuple[str, ...]] = {
    "tpi": ("primary_text", "third_party_text"),
    "sid": ("text_with_break",),
}
_AUDIO, _REGIONS, _VERDICT, _REASON, _NOTE = "audio", "regions", "verdict", "reason", "note"
_SAME_S = 0.0015
"""Regions this near the row's own were not moved: they pass through a page that draws them."""


def make_labelling_config(kind: ReviewKind) -> str:
    """Return the XML for a project's settings, Labeling Interface, Code."""
    lines = ["<View>", '  <Header value="$row_id"/>', f'  <Audio name="{_AUDIO}" value="$audio"/>']
    lines.append(f'  <Labels name="{_REGIONS}" toName="{_AUDIO}">')
    lines += [f'    <Label value="{label}" background="{colour}"/>' for label, colour in _LABELS[kind].items()]
    lines.append("  </Labels>")
    lines.append(f'  <Choices name="{_VERDICT}" toName="{_AUDIO}" choice="single-radio" required="true">')
    lines += [f'    <Choice value="{verdict}" hotkey="{key}"/>' for verdict, key in (("accept", "a"), ("reject", "r"))]
    lines.append("  </Choices>")
    lines.append(
        f'  <Choices name="{_REASON}" toName="{_AUDIO}" choice="single-radio" visibleWhen="choice-selected" '
        f'whenTagName="{_VERDICT}" whenChoiceValue="reject">'
    )
    lines += [f'    <Choice value="{r}" hint={quoteattr(REASONS_IN_WORDS[r])}/>' for r in list_reasons(kind)]
    lines.append("  </Choices>")
    for field in _TEXTS[kind]:
        lines.append(f"  <Header value={quoteattr(TEXT_TITLES[field])}/>")
        lines.append(
            f'  <TextArea name="{field}" toName="{_AUDIO}" value="${field}" rows="2" maxSubmissions="1" '
            'editable="true"/>'
        )
    lines.append('  <Header value="Note"/>')
    lines.append(f'  <TextArea name="{_NOTE}" toName="{_AUDIO}" rows="2" maxSubmissions="1" editable="true"/>')
    return "\n".join([*lines, "</View>"]) + "\n"


def make_task(row: ListedRow, values: RowEdits, audio: str, build_digest: str) -> dict[str, Any]:
    """Return a row as a task to import, its own boundaries and texts as a prediction that annotators start from.

    Args:
        row: the row.
        values: its own values of what can be put right.
        audio: address of the clip, as Label Studio is to ask for it.
        build_digest: of the build's rows, so that what comes back is known to be about them.
    """
    texts = {field: getattr(values, field) or "" for kind in _TEXTS for field in _TEXTS[kind]}
    kind: ReviewKind = "sid" if values.text_with_break is not None or values.segments is None else "tpi"
    result = [_make_region(row, start, end, label) for label, start, end in _list_regions(row, values)]
    result += [
        {"from_name": field, "to_name": _AUDIO, "type": "textarea", "value": {"text": [texts[field]]}}
        for field in _TEXTS[kind]
        if texts[field]
    ]
    for number, one in enumerate(result):
        one["id"] = f"own-{number}"
    return {
        "data": {
            "audio": audio,
            "row_id": row.id,
            "build_digest": build_digest,
            "label": row.label,
            "scenario": row.scenario,
            **{field: texts[field] for field in _TEXTS[kind]},
        },
        "predictions": [{"model_version": "bystander", "result": result}],
    }


def _list_regions(row: ListedRow, values: RowEdits) -> list[tuple[str, float, float]]:
    if values.segments is not None:
        return [(segment.speaker, segment.start_s, segment.end_s) for segment in values.segments]
    if values.break_time_s is not None and values.break_time_s < row.duration_s:
        return [(BREAK_LABEL, values.break_time_s, row.duration_s)]
    return []


def _make_region(row: ListedRow, start_s: float, end_s: float, label: str) -> dict[str, Any]:
    return {
        "from_name": _REGIONS,
        "to_name": _AUDIO,
        "type": "labels",
        "original_length": row.duration_s,
        "value": {"start": start_s, "end": end_s, "channel": 0, "labels": [label]},
    }


@dataclass(frozen=True, slots=True)
class ImportedReview:
    """What one annotator says about a row, with every field that the row can have."""

    annotator: str
    row_id: str
    review: RowReview


def read_export(
    data: bytes,
    where: str,
    kind: ReviewKind,
    build_digest: str,
    find_row: Callable[[str], tuple[ListedRow, RowEdits] | None],
    annotator: str | None = None,
) -> list[ImportedReview]:
    """Return the annotations of a JSON export in its order; cancelled ones are left out.

    Args:
        data: the file's content.
        where: its name, for errors.
        kind: of the build.
        build_digest: of its rows.
        find_row: returns a row and its own values, or None where there is none of that id.
        annotator: whose all annotations are; None: whoever Label Studio says.

    Raises:
        InputError: it is no such export, or is about other rows; the message names the task and the field.
    """
    try:
        tasks = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{where}: is no JSON; export the project from Label Studio as JSON") from exc
    if not isinstance(tasks, list):
        raise InputError(f"{where}: holds no list of tasks; export the project from Label Studio as JSON")
    return [
        found
        for number, task in enumerate(tasks, 1)
        for found in _read_task(task, f"{where}: task {number}", kind, build_digest, find_row, annotator)
    ]


def _read_task(
    task: Any,
    where: str,
    kind: ReviewKind,
    build_digest: str,
    find_row: Callable[[str], tuple[ListedRow, RowEdits] | None],
    annotator: str | None,
) -> Iterator[ImportedReview]:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise InputError(f"{where}: has no data; export the project as JSON, not as JSON-MIN")
    row_id, digest = task["data"].get("row_id"), task["data"].get("build_digest")
    if digest != build_digest:
        raise InputError(f"{where}: data.build_digest: is that of other rows; import it into the build that it is of")
    found = find_row(row_id) if isinstance(row_id, str) else None
    if found is None:
        raise InputError(f"{where}: data.row_id: {str(row_id)[:80]!r} is no row of the build")
    if not isinstance(task.get("annotations", []), list):
        raise InputError(f"{where}: annotations: is no list")
    for place, annotation in enumerate(task.get("annotations", []), 1):
        here = f"{where}: annotation {place}"
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result", []), list):
            raise InputError(f"{here}: result: is no list")
        if annotation.get("was_cancelled"):
            continue
        name = annotator or _name_annotator(annotation.get("completed_by"), here)
        yield ImportedReview(name, str(row_id), _read_results(annotation.get("result", []), here, kind, *found))


def _name_annotator(given: Any, where: str) -> str:
    if isinstance(given, Mapping):
        given = given.get("email") or given.get("username") or given.get("id")
    if given is None:
        raise InputError(f"{where}: completed_by: is missing; say with --annotator whose the annotations are")
    text = f"label-studio-{given}" if isinstance(given, int) else re.sub(r"[^\w.-]+", "-", str(given)).strip("-.")
    try:
        return normalise_annotator(text[:40])
    except ValueError as exc:
        raise InputError(f"{where}: completed_by: {exc}") from exc


def _read_results(results: Sequence[Any], where: str, kind: ReviewKind, row: ListedRow, own: RowEdits) -> RowReview:
    fields: dict[str, Any] = {_VERDICT: None, _REASON: None, _NOTE: None}
    regions: list[dict[str, Any]] = []
    for result in results:
        if not isinstance(result, Mapping) or not isinstance(result.get("value"), Mapping):
            raise InputError(f"{where}: result: holds something without a value")
        name, value = result.get("from_name"), result["value"]
        if name in (_VERDICT, _REASON):
            fields[name] = _read_one(value.get("choices"), f"{where}: {name}")
        elif name == _NOTE:
            fields[name] = _join_text(value.get("text")) or None
        elif name in _TEXTS[kind]:
            text = _join_text(value.get("text"))
            fields[name] = text if text and text != getattr(own, name) else None
        elif name == _REGIONS:
            label = _read_one(value.get("labels"), f"{where}: {name}")
            regions.append({"speaker": label, "start_s": value.get("start"), "end_s": value.get("end")})
    fields[_REASON] = fields[_REASON] if fields[_VERDICT] == "reject" else None
    fields |= _read_regions(regions, where, kind, row, own)
    if kind == "sid":
        fields |= _drop_break(fields.get("text_with_break"), bool(regions), own)
    try:
        return RowReview.model_validate(fields)
    except ValidationError as exc:
        raise InputError(f"{where}: {describe_field_faults(RowReview, exc)}") from exc


def _read_regions(
    regions: Sequence[dict[str, Any]], where: str, kind: ReviewKind, row: ListedRow, own: RowEdits
) -> dict[str, Any]:
    """Return segments, or the break's time, with null where they are the row's own."""
    try:
        read = sorted(
            (ReviewedSegment.model_validate(one) for one in regions), key=lambda one: (one.start_s, one.end_s)
        )
    except ValidationError as exc:
        raise InputError(f"{where}: {_REGIONS}: {describe_field_faults(ReviewedSegment, exc)}") from exc
    foreign = {one.speaker for one in read} - {*_LABELS[kind]}
    if foreign:
        raise InputError(f"{where}: {_REGIONS}: {sorted(foreign)[0]!r} is none of {', '.join(_LABELS[kind])}")
    late = [one.end_s for one in read if one.end_s > row.duration_s + _SAME_S]
    if late:
        raise InputError(f"{where}: {_REGIONS}: one ends at {late[0]:g} s, after the clip of {row.duration_s:g} s")
    if kind == "tpi":
        return {"segments": None if not read or _is_same(read, own.segments or ()) else tuple(read)}
    if len(read) > 1:
        raise InputError(f"{where}: {_REGIONS}: has {len(read)} breaks; a clip has one at most")
    if own.break_time_s is None:
        return {"break_time_s": None}
    time_s = read[0].start_s if read else row.duration_s
    return {"break_time_s": None if abs(time_s - own.break_time_s) <= _SAME_S else time_s}


def _drop_break(text: str | None, has_region: bool, own: RowEdits) -> dict[str, str]:
    """Return the row's text without its break, where somebody removed the region and left the text as it was."""
    own_text = own.text_with_break
    if has_region or text is not None or own_text is None or BREAK_TAG not in own_text:
        return {}
    return {"text_with_break": own_text.replace(BREAK_TAG, "")}


def _is_same(one: Sequence[ReviewedSegment], other: Sequence[ReviewedSegment]) -> bool:
    ordered = sorted(other, key=lambda segment: (segment.start_s, segment.end_s))
    return len(one) == len(ordered) and all(
        a.speaker == b.speaker and abs(a.start_s - b.start_s) <= _SAME_S and abs(a.end_s - b.end_s) <= _SAME_S
        for a, b in zip(one, ordered, strict=True)
    )


def _read_one(values: Any, where: str) -> str:
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        raise InputError(f"{where}: must be one choice")
    return values[0]


def _join_text(value: Any) -> str:
    return " ".join(map(str, value)).strip() if isinstance(value, list) else str(value or "").strip()
