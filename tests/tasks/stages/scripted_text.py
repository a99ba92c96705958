"""A text engine that answers from a script, and rows for the text stages to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.prompts.load import load_pack
from bystander.schemas import tpi
from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.stages import Params, StageContext
from bystander.schemas.taxonomy import load_taxonomy

Answer = Callable[[TextRequest, int], Any]
"""(request, how often this task was asked with these variables before) to a JSON value, probabilities, or a fault."""


class ScriptedTextEngine:
    """Answers with what `answer` returns: a dict of text is JSON, a dict of numbers probabilities, a fault itself."""

    def __init__(self, answer: Answer) -> None:
        self.batches: list[list[TextRequest]] = []
        self._answer = answer
        self._asked: dict[str, int] = {}

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("text", "scripted", "script", "1")

    @property
    def requests(self) -> list[TextRequest]:
        return [request for batch in self.batches for request in batch]

    def generate(self, requests: Sequence[TextRequest], on_reply: Any = None) -> list[TextReply | RowFault]:
        self.batches.append(list(requests))
        return [self._reply(request) for request in requests]

    def close(self) -> None:
        """Do nothing."""

    def _reply(self, request: TextRequest) -> TextReply | RowFault:
        key = json.dumps([request.task, dict(request.variables)], sort_keys=True)
        number = self._asked.get(key, 0)
        self._asked[key] = number + 1
        answer = self._answer(request, number)
        if isinstance(answer, RowFault):
            return answer
        if isinstance(answer, str):
            return TextReply(text=answer)
        if request.options:
            return TextReply(text=max(answer, key=answer.__getitem__), option_probs=answer, option_source="logprobs")
        return TextReply(text=json.dumps(answer), value=answer)


def answer_always(answer: Any) -> ScriptedTextEngine:
    return ScriptedTextEngine(lambda request, number: answer)


def make_context(engine: Any, params: Params, build_seed: int = 7, pack: Any = None) -> StageContext:
    return StageContext(
        build_seed=build_seed,
        params=params,
        taxonomy=load_taxonomy(),
        pack=pack or load_pack("reference"),
        engines={"writer": engine, "judge": engine},
    )


_VALUES: dict[str, Any] = {
    "query_source": "queries.txt",
    "query_line": 1,
    "query_text": "play some jazz in the kitchen",
    "language": "en",
    "query_id": "query-1",
    "request": "play some jazz in the kitchen",
    "draw": 0,
    "scenario": "veto_with_justification",
    "category": "disagreement",
    "timing": "after_completion",
    "primary_complete": "Play some jazz in the kitchen.",
    "primary_text": "Play some jazz in the kitchen.",
    "third_party_text": "No, don't, the neighbours are asleep.",
    "write_attempts": 1,
    "realism_score": 0.9,
    "label": "actionable",
    "kind": "feasibility_constraint",
    "label_score": 0.8,
    "reply": "Someone says the neighbours are asleep. Should I wait?",
    "reply_attempts": 1,
    "ambiguity_score": 4.5,
    "n_speakers": 2,
    "primary_voice": "anna",
    "third_party_voice": "bert",
    "twin_id": None,
    "tracks": [],
    "track_similarity": 0.3,
    "audio": {"bytes": b"x", "path": "x.flac"},
    "sampling_rate": 24000,
    "duration_s": 4.0,
    "segments": [],
    "offset_asked_s": -0.5,
    "overlap_s": 0.5,
    "loudness_difference_db": 1.0,
    "mixture_similarity": 0.4,
}


def make_rows(schema: pa.Schema, *changes: Mapping[str, Any]) -> pa.Table:
    """Return one row a change; ids are row-0, row-1, ... unless given."""
    rows = [
        {name: change.get(name, f"row-{i}" if name == "id" else _VALUES.get(name)) for name in schema.names}
        for i, change in enumerate(changes or ({},))
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def list_reasons(output: Any) -> list[str]:
    return output.rejected["reject_reason"].to_pylist()


__all__ = ["ScriptedTextEngine", "answer_always", "list_reasons", "make_context", "make_rows", "tpi"]
