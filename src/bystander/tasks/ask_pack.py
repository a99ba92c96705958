"""What a pack makes of given rows: the labelling and the reply stage, run as a build runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.arrays import build_array
from bystander.schemas.engines import EngineIdentity, RowFault, TextEngine, TextReply, TextRequest
from bystander.schemas.pack_preview import ClassScore, Fault, PackAnswers, RowAnswer, SampleRow
from bystander.schemas.packs import PromptPack
from bystander.schemas.stages import Stage, StageContext
from bystander.schemas.text_tasks import LABEL_CLASS
from bystander.schemas.tpi import REALISTIC
from bystander.schemas.tpi_params import LabelActionability
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import label_actionability, write_replies


def ask_pack(rows: Sequence[SampleRow], pack: PromptPack, environment: StageEnvironment) -> PackAnswers:
    """Label rows and write their replies with a pack, with the engines and the settings of the environment's job.

    A row's label, kind and reply are those that a build of the job's seed gives a row of the same id and texts.

    Raises:
        EngineError: an engine cannot be opened, or fails as a whole.
        PackError: a template fails on a row.
    """
    judge = _Overheard(environment.engine("judge"))
    labelled, rejected = _run(label_actionability.STAGE, _make_table(rows), pack, environment, judge)
    replied, unanswered = _run(write_replies.STAGE, labelled, pack, environment, judge)
    labels = {row["id"]: row for row in labelled.to_pylist()}
    replies = {row["id"]: row for row in replied.to_pylist()}
    faults = {row["id"]: row for row in (*rejected.to_pylist(), *unanswered.to_pylist())}
    params = cast(LabelActionability, environment.params_of(label_actionability.STAGE))
    answers = []
    for row in rows:
        given = {**labels.get(row.id, {}), **replies.get(row.id, {})}
        fault = faults.get(row.id)
        answers.append(
            RowAnswer(
                row=row.id,
                scores=_score_classes(row, pack, judge.probabilities, params),
                **{name: given.get(name) for name in ("label", "label_score", "kind", "reply", "reply_attempts")},
                fault=fault
                and Fault(
                    stage=fault["reject_stage"],
                    reason=fault["reject_reason"],
                    detail=fault["reject_detail"],
                    raw_output=fault["raw_output"],
                ),
            )
        )
    return PackAnswers(pack=pack.name, digest=pack.digest, answers=tuple(answers))


def _run(
    stage: Stage, rows: pa.Table, pack: PromptPack, environment: StageEnvironment, judge: TextEngine
) -> tuple[pa.Table, pa.Table]:
    """Return the rows that a stage keeps and those that it rejects."""
    engines: Mapping[Any, Any] = {
        role: judge if role == "judge" else environment.engine(role) for role in stage.engines
    }
    context = StageContext(
        build_seed=environment.job.build_seed,
        params=environment.params_of(stage),
        taxonomy=environment.taxonomy,
        pack=pack,
        engines=engines,
    )
    output = stage(rows, context)
    return output.kept, output.rejected


def _make_table(rows: Sequence[SampleRow]) -> pa.Table:
    """Return rows as the labelling stage reads them; what no stage up to the reply looks at is filled in."""
    unread = {
        "query_source": "preview",
        "query_line": 1,
        "language": "en",
        "draw": 0,
        "write_attempts": 1,
        "realism_score": 1.0,
    }
    cells = [
        {
            **unread,
            **row.model_dump(mode="json", exclude={"answer"}),
            "query_text": row.request,
            "query_id": row.id,
        }
        for row in rows
    ]
    return pa.Table.from_arrays(
        [build_array([cell[column.name] for cell in cells], column.type) for column in REALISTIC], schema=REALISTIC
    )


def _score_classes(
    row: SampleRow,
    pack: PromptPack,
    probabilities: Mapping[tuple[str, str, str], float],
    params: LabelActionability,
) -> tuple[ClassScore, ...]:
    """Return the score of every class in the judge's answers; none where one of them could not be read."""
    shifted: dict[str, float] = {}
    given: dict[str, float] = {}
    for item in pack.classes[:-1]:
        probability = probabilities.get((row.primary_complete, row.third_party_text, item.key))
        if probability is None:
            return ()
        given[item.key] = probability
        shifted[item.key] = label_actionability.shift_score(probability, item.key, params)
    scores = label_actionability.weigh_against_others(shifted, pack.classes[-1].key)
    return tuple(ClassScore(key=key, probability=given.get(key), score=score) for key, score in scores.items())


class _Overheard:
    """The judge, of whom it is noted how probable each class is: rows keep only the label's score."""

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine
        self.probabilities: dict[tuple[str, str, str], float] = {}
        """By primary text, third party's text and class."""

    @property
    def identity(self) -> EngineIdentity:
        return self._engine.identity

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]:
        replies = self._engine.generate(requests, on_reply)
        for request, reply in zip(requests, replies, strict=True):
            if request.task == LABEL_CLASS.name and isinstance(reply, TextReply) and reply.option_probs:
                given = request.variables
                key = (given["primary"], given["third_party"], given["class"])
                self.probabilities[key] = float(reply.option_probs.get(request.options[0], 0.0))
        return replies

    def close(self) -> None:
        self._engine.close()
