"""Label each interruption with a class of the pack, and a kind of that class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PackClass
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import LABEL_CLASS, LABEL_KIND, list_kind_letters
from bystander.schemas.tpi import LABELLED, REALISTIC
from bystander.schemas.tpi_params import LabelActionability
from bystander.tasks.stages.option_scores import score_first_option, score_options, shift_probability
from bystander.tasks.stages.text_attempts import Row

NAME = "label_actionability"
_DEFAULT_THRESHOLD = 0.5


def label_actionability(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge of every class but the last whether the interruption meets its criteria; the last is the default.

    The probability of the answer that says so is shifted so that the class's threshold becomes 0.5. The highest wins if
    it is at least 0.5, of equal ones the first in the pack; else the last class has the row. `label_score` is the
    label's probability given that at most one class fits: of p for each class that was asked about, p times the product
    of 1 - p of the others, over the sum of these and of the product of all 1 - p, which is the last class's part. With
    two classes that is p or 1 - p; with more, a rival takes its part. The kind is the judge's most probable letter. The
    judge sees the complete request, since the label is about the words that were meant.

    Columns read: primary_complete, third_party_text. Columns written: label, kind, label_score.

    Reject reasons: uncertain_label: the label's score is below `min_score`. Reasons of the engine: `ENGINE_REASONS`.
    """
    params = cast(LabelActionability, context.params)
    table = rows.to_pylist()
    classes = context.pack.classes
    by_class = {
        item.key: score_first_option(context.judge, [make_class_request(row, item, context) for row in table])
        for item in classes[:-1]
    }
    outcomes: list[dict[str, Any] | RowFault] = [
        _choose_class({key: scores[i] for key, scores in by_class.items()}, classes[-1].key, params)
        for i in range(len(table))
    ]
    for item in classes:
        chosen = [i for i, o in enumerate(outcomes) if not isinstance(o, RowFault) and o["label"] == item.key]
        kinds = _choose_kinds([table[i] for i in chosen], item, context)
        for i, kind in zip(chosen, kinds, strict=True):
            outcomes[i] = kind if isinstance(kind, RowFault) else {**cast(dict[str, Any], outcomes[i]), "kind": kind}
    return split_rows(NAME, rows, outcomes, LABELLED)


def _choose_class(
    scores: Mapping[str, float | RowFault], default: str, params: LabelActionability
) -> dict[str, Any] | RowFault:
    shifted: dict[str, float] = {}
    for key, score in scores.items():
        if isinstance(score, RowFault):
            return score
        shifted[key] = shift_score(score, key, params)
    best = max(shifted, key=lambda key: shifted[key])  # the first of equal ones
    label = best if shifted[best] >= 0.5 else default
    score = weigh_against_others(shifted, default)[label]
    if score < params.min_score:
        return RowFault("uncertain_label", f"{label} has a score of {score:.3f}, below {params.min_score}")
    return {"label": label, "label_score": score}


def shift_score(probability: float, key: str, params: LabelActionability) -> float:
    """Return the probability of a class, shifted so that its threshold becomes 0.5."""
    return shift_probability(probability, params.thresholds.get(key, _DEFAULT_THRESHOLD))


def weigh_against_others(shifted: Mapping[str, float], default: str) -> dict[str, float]:
    """Return each class's probability given that one class at most fits; they sum to 1."""
    parts = {
        key: math.prod(p if other == key else 1.0 - p for other, p in shifted.items()) for key in (*shifted, default)
    }
    total = math.fsum(parts.values())
    return {key: part / total for key, part in parts.items()}


def _choose_kinds(rows: Sequence[Row], item: PackClass, context: StageContext) -> list[str | RowFault | None]:
    if len(item.kinds) < 2 or not rows:
        return [item.kinds[0].key if item.kinds else None for _ in rows]
    letters = list_kind_letters(len(item.kinds))
    requests = [
        TextRequest(
            task=LABEL_KIND.name,
            messages=context.pack.messages(LABEL_KIND.name, {**_get_texts(row), "class": item}),
            seed=derive_seed(context.build_seed, row["id"], NAME, "kind"),
            variables={**_get_texts(row), "class": item.key},
            options=letters,
            temperature=0.0,
        )
        for row in rows
    ]
    kinds: list[str | RowFault | None] = []
    for scores in score_options(context.judge, requests):
        if isinstance(scores, RowFault):
            kinds.append(scores)
        else:
            kinds.append(item.kinds[max(range(len(letters)), key=lambda n: scores[letters[n]])].key)
    return kinds


def make_class_request(row: Row, item: PackClass, context: StageContext) -> TextRequest:
    """Return the question whether a row's interruption meets the criteria of a class."""
    return TextRequest(
        task=LABEL_CLASS.name,
        messages=context.pack.messages(LABEL_CLASS.name, {**_get_texts(row), "class": item}),
        seed=derive_seed(context.build_seed, row["id"], NAME, item.key),
        variables={**_get_texts(row), "class": item.key},
        options=context.pack.answers(LABEL_CLASS.name),
        temperature=0.0,
    )


def _get_texts(row: Row) -> dict[str, str]:
    return {"primary": row["primary_complete"], "third_party": row["third_party_text"]}


STAGE = Stage(
    name=NAME,
    version=3,
    reads=REALISTIC,
    writes=LABELLED,
    reasons=ENGINE_REASONS | {"uncertain_label"},
    run=label_actionability,
    params_type=LabelActionability,
    engines=("judge",),
    uses=(
        "id",
        "primary_complete",
        "third_party_text",
    ),
    text_tasks=(LABEL_CLASS.name, LABEL_KIND.name),
    class_fields=("key", "kinds"),
)
