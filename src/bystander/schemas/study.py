"""A study in which people rate scenes, clips or replies: its settings, what raters see, and what they must not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bystander.schemas.evaluation import TestName
from bystander.schemas.field_types import Name, Seed
from bystander.schemas.identity import digest_json

StudyKind = Literal["realism", "naturalness", "reply", "preference", "satisfaction"]
"""`realism`: could the scenario, read as text, happen? `naturalness`: does it sound like it, with its clip? Both on 3
points. `reply`: does a reply show the ideal strategy (RSF, 0 or 1), and how good is it (OH, 1 to 5)? `preference`:
which of two systems' replies is better (A/B)? `satisfaction`: would a reply have satisfied the user? Source: TPI
paper, sections 4.3 and 5.3.2 and appendix E."""
KINDS: tuple[StudyKind, ...] = ("realism", "naturalness", "reply", "preference", "satisfaction")

SIZES: Mapping[StudyKind, tuple[int, int]] = {
    "realism": (100, 10),
    "naturalness": (200, 10),
    "reply": (50, 5),
    "preference": (40, 5),
    "satisfaction": (100, 4),
}
"""Raters and ratings of each in the paper (appendix E: realism, naturalness, reply; section 5.3.2: the others)."""

ASSUMED_SD: Mapping[StudyKind, float] = {
    "realism": 0.5,
    "naturalness": 0.5,
    "reply": 1.2,
    "preference": 0.5,
    "satisfaction": 0.5,
}
"""Standard deviations of one rating to plan with: the first two from the paper's intervals, of OH a usual one of five
points, else the highest that a share can have."""

TrapKind = Literal["instruction", "nonsense", "noise", "other_request"]
"""`instruction`: the text asks for one option. `nonsense`: words thrown together. `noise`: a clip without speech.
`other_request`: a reply to somebody else's request."""
TRAPS: Mapping[StudyKind, tuple[TrapKind, ...]] = {
    "realism": ("nonsense", "instruction"),
    "naturalness": ("noise",),
    "reply": ("other_request", "instruction"),
    "preference": ("nonsense", "instruction"),
    "satisfaction": ("nonsense", "instruction"),
}
"""Traps that fit each kind, in the order in which they are dealt out."""

OptionOrder = Literal["shuffled", "reversed", "fixed"]
"""`shuffled`: any order. `reversed`: as written or the other way round, so that a scale stays a scale."""
Layout = Literal["sheet", "item"]
ClipFormat = Literal["mp3", "ogg", "wav"]

FIRST, SECOND, TIE = "first", "second", "tie"
"""Answers of an A/B question: which of the two replies, as they stood on the page."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StudyOption(_Section):
    """An answer that can be chosen. `score` is what it counts in a mean; null where a mean has no meaning."""

    value: str = Field(pattern=r"^[a-z0-9_]{1,20}$")
    label: str = Field(min_length=1)
    hint: str = ""
    score: float | None = None


class StudyQuestion(_Section):
    """A question about an item, with its options from the lowest to the highest."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,29}$")
    text: str = Field(min_length=1)
    scale: Literal["ordinal", "nominal"] = "ordinal"
    options: tuple[StudyOption, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _values_differ(self) -> StudyQuestion:
        values = [option.value for option in self.options]
        if len(set(values)) < len(values):
            raise ValueError(f"question {self.name} has two options of the same value")
        if self.scale == "ordinal" and any(option.score is None for option in self.options):
            raise ValueError(f"question {self.name}: every option of an ordinal scale needs a score")
        return self

    @property
    def scores(self) -> dict[str, float]:
        """Score by value."""
        return {option.value: option.score for option in self.options if option.score is not None}


class StudyWording(_Section):
    """All words that a rater reads but for the items'. `ui` has the page's own, `strategies` what is ideal by label."""

    language: str = "en"
    title: str
    lead: tuple[str, ...]
    rules: tuple[str, ...] = ()
    questions: tuple[StudyQuestion, ...] = Field(min_length=1)
    strategies: dict[str, str] = Field(default_factory=dict)
    consent: tuple[str, ...] = Field(min_length=1)
    traps: dict[str, str]
    ui: dict[str, str]


class StudySettings(_Section):
    """What decides a study. With `layout: item` the platform deals out, and numbers of raters are what is aimed at."""

    kind: StudyKind
    bench: str
    evaluations: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    """Whose replies are rated, in the evaluations. Default: all; of a preference, two. `bench` is the bench's own."""
    seed: Seed = 0
    raters: int = Field(ge=1, le=100_000)
    per_rater: int = Field(ge=1, le=200)
    """Ratings of each, traps not counted."""
    items: int | None = Field(None, ge=1)
    """Items to draw. Default: as many as give each `ratings_per_item`, or all if there are fewer."""
    ratings_per_item: int = Field(3, ge=1)
    tests: tuple[TestName, ...] = ("tpi_test",)
    traps_per_rater: int = Field(2, ge=0, le=20)
    trap_kinds: tuple[TrapKind, ...] = ()
    """Default: those that fit the kind."""
    max_failed_traps: int = Field(0, ge=0)
    """A rater who fails more of them is dropped."""
    min_seconds: float | None = Field(None, gt=0)
    """A rater whose median time for an item is below is dropped; null: time does not matter."""
    keep_unfinished: bool = False
    option_order: OptionOrder = "shuffled"
    layout: Layout = "sheet"
    """`sheet`: a line of `tasks.csv` is all that one rater sees. `item`: it is one item, which the platform deals."""
    audio: bool | None = None
    """Whether raters hear the clip. Default: of naturalness only, as in the paper."""
    clip_format: ClipFormat = "mp3"
    clips_url: str = "clips/"
    submit_url: str = ""
    """Where the static page sends its form; empty: where the platform says."""
    assumed_sd: float | None = Field(None, gt=0)
    """Standard deviation of one rating to plan with."""
    rater_correlation: float = Field(0.1, ge=0, lt=1)
    """How alike one rater's ratings are (intraclass correlation), to plan with."""

    @model_validator(mode="after")
    def _kind_can_do_it(self) -> StudySettings:
        odd = [trap for trap in self.trap_kinds if trap not in TRAPS[self.kind]]
        if odd:
            raise ValueError(
                f"trap_kinds: {odd[0]} does not fit a study of {self.kind}; {', '.join(TRAPS[self.kind])} do"
            )
        if self.kind in ("realism", "reply") and self.tests != ("tpi_test",):
            raise ValueError(f"tests: a study of {self.kind} asks about two speakers, so about tpi_test alone")
        if self.kind == "naturalness" and self.audio is False:
            raise ValueError("audio: naturalness cannot be rated without the clip")
        if not self.tests:
            raise ValueError("tests: name tpi_test, janus_test or both")
        return self

    @property
    def hears(self) -> bool:
        """Whether raters hear the clip."""
        return self.kind == "naturalness" if self.audio is None else self.audio

    @property
    def traps(self) -> tuple[TrapKind, ...]:
        return self.trap_kinds or TRAPS[self.kind]

    @property
    def sd(self) -> float:
        return self.assumed_sd or ASSUMED_SD[self.kind]


class StudyItem(_Section):
    """One thing to rate: a row, and whose reply. Raters never see this."""

    id: str
    row: str
    group: str
    """What no rater sees twice: the row and its twin."""
    system: str | None = None
    scenario: str
    category: str
    label: str
    timing: str


class StudyTrap(_Section):
    """An item whose right answer is certain: by question, the values that are accepted; others are not looked at."""

    kind: TrapKind
    expected: dict[str, tuple[str, ...]] = Field(min_length=1)


class StudyCell(_Section):
    """What stands at one place of a sheet: an item or a trap. `first` is the system whose reply stands first."""

    item: str | None = None
    trap: StudyTrap | None = None
    first: str | None = None


class StudyKey(_Section):
    """`key.json`: what is behind each place of each sheet, for reading results back. It is no business of raters."""

    format: Literal["bystander-study-key"] = "bystander-study-key"
    format_version: Literal[1] = 1
    items: tuple[StudyItem, ...]
    sheets: dict[str, tuple[StudyCell, ...]]


class ShownItem(_Section):
    """An item or a trap as a rater sees it: `talk` has who (`user`, `bystander`, `same_voice`) and what was said."""

    talk: tuple[tuple[str, str], ...]
    note: str = ""
    clip: str = ""
    """Name of the sound file; empty: nothing is heard."""
    replies: tuple[str, ...] = ()
    strategy: str = ""
    order: dict[str, tuple[str, ...]]
    """By question, the values of its options in the order shown."""


class ShownSheet(_Section):
    """All that one rater gets to see, in its order."""

    study: str
    sheet: str
    items: tuple[ShownItem, ...]


class StudyFile(_Section):
    """A file of the study."""

    file: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class StudySource(_Section):
    """A build or an evaluation that items come from."""

    uri: str
    name: str
    content_digest: str


class StudyManifest(_Section):
    """`study.json`, written last."""

    format: Literal["bystander-study"] = "bystander-study"
    format_version: Literal[1] = 1
    name: Name
    settings: StudySettings
    wording: StudyWording
    bench: StudySource
    evaluations: tuple[StudySource, ...] = ()
    systems: tuple[str, ...] = ()
    items: int
    sheets: int
    ratings: int
    left_out: dict[str, int] = Field(default_factory=dict)
    """Rows that no item was made of, by reason."""
    files: tuple[StudyFile, ...]
    code_version: str

    @property
    def content_digest(self) -> str:
        return digest_json([self.name, self.settings.model_dump(mode="json"), [f.model_dump() for f in self.files]])

    def question(self, name: str) -> StudyQuestion:
        """Return a question of the study by its name.

        Raises:
            KeyError: it has none of that name.
        """
        return {question.name: question for question in self.wording.questions}[name]
