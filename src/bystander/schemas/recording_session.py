"""A recording session: who reads which lines where, how the takes are numbered, and how recordings of it are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bystander.schemas.errors import ConfigError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.recogniser_configs import FasterWhisperConfig, RecogniserConfig
from bystander.schemas.sid_engine_configs import AlignerConfig, PocketsphinxAlignerConfig
from bystander.schemas.stages import Params

ROOMS = ("reverberant_room", "hallway", "outdoors")
"""The paper's three environments (appendix G.4)."""
PAPER_SPEAKERS, PAPER_TAKES = 4, 59
"""Participants who alternated roles (appendix G.4), and recordings of theirs in the paper's set of 100."""
TPI_REAL = "tpi-real"
"""Dataset of real recordings."""


class SessionPlan(Params):
    """What a script sheet is made for."""

    speakers: tuple[str, ...] = Field(min_length=2)
    """Names or pseudonyms, each once: they stand in the rows as voices."""
    rooms: tuple[str, ...] = Field(ROOMS, min_length=1)
    takes: int = Field(60, ge=1, le=10_000)
    """Takes in all; fewer where the build has fewer two-speaker rows."""
    seed: int = Field(0, ge=0, le=2**63 - 1)
    overlap_s: float | None = Field(None, ge=0, le=3)
    """Overlap asked for in every take, in seconds; None asks for the row's own, which may be a pause."""
    scenarios: tuple[str, ...] = ()
    """Of which rows are taken; empty means all."""

    @model_validator(mode="after")
    def _check_names(self) -> SessionPlan:
        for field, names in (("speakers", self.speakers), ("rooms", self.rooms), ("scenarios", self.scenarios)):
            if len({*names}) < len(names):
                raise ConfigError(f"{field}: a name occurs twice; give each its own")
            if any(not name.strip() for name in names):
                raise ConfigError(f"{field}: a name is empty")
        return self


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_READ_OF_ROWS = (
    "id",
    "primary_text",
    "primary_complete",
    "third_party_text",
    "language",
    "timing",
    "scenario",
)
"""What an import cannot do without."""


class Take(_Part):
    """One exchange to be read. Words are those of `primary_text` as written, split at spaces."""

    code: str = Field(pattern=r"^[A-Z]{2}\d{3,}$")
    room: str
    primary: str
    """Who makes the request."""
    third_party: str
    """Who cuts in."""
    cue_word: int = Field(ge=0)
    """Position, from 0, of the primary's word at which the third party begins; of the last one if it begins after."""
    offset_s: float
    """Asked for: the third party's start minus the primary's end, in seconds. Negative is overlap, else a pause."""
    row: dict[str, Any]
    """The build's row without its audio: texts, scenario, label, reply and the rest."""

    @model_validator(mode="after")
    def _check_row(self) -> Take:
        lacking = [name for name in _READ_OF_ROWS if not isinstance(self.row.get(name), str)]
        if lacking:
            raise ValueError(f"{self.code}: its row lacks the text {lacking[0]}")
        if self.cue_word >= len(self.primary_words):
            count = len(self.primary_words)
            raise ValueError(f"{self.code}: B begins at word {self.cue_word} of {count}, counted from 0")
        return self

    @property
    def number(self) -> int:
        """Of the take, from 1."""
        return int(self.code[2:])

    @property
    def slate(self) -> str:
        """What is said before the take, so that it is found by ear and by the recogniser."""
        return f"Take {self.number}"

    @property
    def overlap_s(self) -> float:
        """Overlap asked for, in seconds; 0 where a pause is."""
        return max(0.0, -self.offset_s)

    @property
    def pause_s(self) -> float:
        """Pause asked for between the two lines, in seconds; 0 where they overlap."""
        return max(0.0, self.offset_s)

    @property
    def primary_words(self) -> list[str]:
        return str(self.row["primary_text"]).split()

    @property
    def within_sentence(self) -> bool:
        """Whether the primary breaks off in mid-sentence."""
        return bool(self.row["timing"] == "within_sentence")

    @property
    def transcript(self) -> str:
        """Both lines, the primary's first."""
        return f"{self.row['primary_text']} {self.row['third_party_text']}"


class SessionSheet(_Part):
    """`session.json`: all takes, and the build that they are of."""

    format: Literal["bystander-recording-session"] = "bystander-recording-session"
    format_version: Literal[1] = 1
    prefix: str = Field(pattern=r"^[A-Z]{2}$")
    """First letters of every code: they tell the takes of one sheet from those of others."""
    build: str
    """Dataset and name of the build."""
    rows_digest: str
    """Of the build's rows."""
    build_facts: dict[str, Any]
    """Its pack and taxonomy, as its manifest has them."""
    plan: SessionPlan
    takes: tuple[Take, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_takes(self) -> SessionSheet:
        codes: set[str] = set()
        for take in self.takes:
            if not take.code.startswith(self.prefix):
                raise ValueError(f"{take.code}: the codes of this sheet begin with {self.prefix}")
            if take.code in codes:
                raise ValueError(f"{take.code}: is the code of two takes")
            codes.add(take.code)
        lacking = [name for name in ("pack", "taxonomy", "engines") if not isinstance(self.build_facts.get(name), dict)]
        if lacking:
            raise ValueError(f"build_facts lacks {lacking[0]}")
        return self


class ImportSettings(Params):
    """How recordings of a session are read, and what a take must be to become a row."""

    max_wer: float = Field(0.34, ge=0)
    """Most word errors a word of the script, after normalisation: of each speaker where each has a channel, else of the
    whole exchange. People slur and speak at once, and recognisers mishear both; a line that was read as something else
    is far above it."""
    min_take_similarity: float = Field(0.5, gt=0, le=1)
    """In a long recording, the least share of a stretch's and a script's words that they must have in common, in order,
    to be taken for each other."""
    take_pause_s: float = Field(1.5, gt=0)
    """In a long recording, the shortest quiet that parts takes, in seconds."""
    margin_s: float = Field(0.25, ge=0)
    """Kept before and after the speech."""
    max_cut_in_error_s: float = Field(0.8, gt=0)
    """Most by which the third party may begin earlier or later than the sheet asks. With one channel it is not seen
    how far the lines overlap; there a pause that is so much too long is all that is found."""
    channels: Literal["auto", "mixed"] = "auto"
    """`mixed` adds up two channels before all else: for stereo microphones that hear both speakers."""
    min_separation_db: float = Field(6.0, ge=3)
    """With a channel a speaker, how much louder a speaker must be on the own channel than on the other one, between
    the two: less is cross-talk."""
    min_above_noise_db: float = Field(12.0, ge=0)
    """How far a speaker must be above the quiet frames of the channel."""
    min_level_dbfs: float = Field(-55.0, lt=0)
    """Least level of a speaker's line."""
    max_clipped_share: float = Field(0.0005, ge=0, lt=1)
    """Most of a line's samples that may be at the limit of the recording, cut flat there."""
    sampling_rate: int = Field(24000, ge=8000, le=48000)
    """Of the clips, in Hz."""
    licence: str = Field("unknown", min_length=1)
    """Terms on which the recordings may be used, as rows and card state them."""
    recogniser: RecogniserConfig = Field(default_factory=FasterWhisperConfig)
    aligner: AlignerConfig = PocketsphinxAlignerConfig(min_score=-60.0, min_word_score=-160.0)
    """Its own limits would refuse right words in rooms that ring; here the recogniser has checked the words before."""


_Settings = TypeVar("_Settings", SessionPlan, ImportSettings)


def read_session_settings(kind: type[_Settings], fields: Mapping[str, Any]) -> _Settings:
    """Return a plan or settings with these fields.

    Raises:
        ConfigError: names the fields that are wrong.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as exc:
        raise ConfigError(f"recording session: {describe_field_faults(kind, exc)}") from exc
