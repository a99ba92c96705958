"""VoiceBench: its eight parts that the TPI paper uses, and the Arrow schemas of their rows.

Source of the parts and their scores: VoiceBench (arXiv:2410.17196); which of them: section 5.1 of the TPI paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from bystander.schemas.evaluation import VERDICT
from bystander.schemas.tpi import AUDIO

PartName = Literal["alpacaeval", "commoneval", "wildvoice", "sd_qa", "mmsu", "openbookqa", "ifeval", "advbench"]

ScoreKind = Literal["open", "reference", "choice", "instructions", "refusal"]
"""How a part is scored. `open`: a judge, 1 to 5. `reference`: a judge, 0 or 1, against a reference answer. `choice`:
the letter of the answer. `instructions`: IFEval's rules. `refusal`: whether the request is turned down."""


@dataclass(frozen=True, slots=True)
class VoiceBenchPart:
    """A part: its name here, its title in tables, how it is scored, and its folders as published, the first preferred.

    `split` is the only split that is read by default; None: all that there are.
    """

    name: PartName
    title: str
    kind: ScoreKind
    folders: tuple[str, ...]
    split: str | None = "test"

    @property
    def judged(self) -> bool:
        """Whether its score needs a judge."""
        return self.kind in ("open", "reference")


PARTS: tuple[VoiceBenchPart, ...] = (
    VoiceBenchPart("alpacaeval", "AlpacaEval", "open", ("alpacaeval_full", "alpacaeval")),
    VoiceBenchPart("commoneval", "CommonEval", "open", ("commoneval",)),
    VoiceBenchPart("wildvoice", "WildVoice", "open", ("wildvoice",)),
    VoiceBenchPart("sd_qa", "SD-QA", "reference", ("sd-qa",), "usa"),
    VoiceBenchPart("mmsu", "MMSU", "choice", ("mmsu",), None),
    VoiceBenchPart("openbookqa", "OpenBookQA", "choice", ("openbookqa",)),
    VoiceBenchPart("ifeval", "IFEval", "instructions", ("ifeval",)),
    VoiceBenchPart("advbench", "AdvBench", "refusal", ("advbench",)),
)
"""In the order of VoiceBench's leaderboard. `alpacaeval_full` is what that scores; `alpacaeval` is a selection of it.
SD-QA has a split for each of eleven accents, MMSU one for each of twelve subjects."""

PARTS_BY_NAME: dict[str, VoiceBenchPart] = {part.name: part for part in PARTS}

CHOICES = "ABCD"
"""Letters of the multiple-choice parts."""

INSTRUCTION = pa.struct([pa.field("id", pa.string()), pa.field("settings", pa.string())])
"""An instruction of IFEval: its published id, and its settings as a JSON object without those that are null."""

VOICEBENCH_ROW = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),  # part/split/position in the split, from 0
        pa.field("part", pa.string(), nullable=False),  # a `PartName`
        pa.field("split", pa.string(), nullable=False),  # as published: test, usa, law, ...
        pa.field("audio", AUDIO, nullable=False),
        pa.field("sampling_rate", pa.int32(), nullable=False),
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),  # what is said in the clip
        pa.field("reference", pa.string()),  # sd_qa: the answer; mmsu, openbookqa: the letter
        pa.field("instructions", pa.list_(INSTRUCTION), nullable=False),  # ifeval; empty elsewhere
    ]
)
"""A row to be answered. Its id goes by position, since rows have no name of their own in what is published, and answers
that were given elsewhere come in that order."""

VOICEBENCH_REJECT = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),  # from 1 within the file
        pa.field("id", pa.string(), nullable=False),
        pa.field("reject_reason", pa.string(), nullable=False),
        pa.field("reject_detail", pa.string(), nullable=False),
    ]
)
"""A row that cannot be used, and why."""

VOICEBENCH_REASONS = frozenset(
    {
        "not_an_object",
        "no_audio",
        "undecodable_audio",
        "no_prompt",
        "no_reference",
        "reference_not_a_letter",
        "no_instructions",
        "unknown_instruction",
        "bad_instruction_settings",
    }
)
"""Why a row is rejected."""

VOICEBENCH_ANSWERED = pa.schema(
    [
        *VOICEBENCH_ROW,
        pa.field("answer", pa.string()),  # what the system said; null where it gave none
        pa.field("answer_fault", pa.string()),  # why there is none: a code, and a sentence
    ]
)

VOICEBENCH_JUDGED = pa.schema([*VOICEBENCH_ANSWERED, pa.field("verdict", VERDICT, nullable=False)])
"""Rows of the parts that need a judge. The score is 1 to 5 for `open` parts, 0 or 1 for `reference` ones."""
