"""The playbook's authored data: models, loading, and all that is checked before a line of it is used.

Files under `data/playbook/`:

- `intents.yaml`: per intent of the starter queries its main slot, and named groups of intents;
- `hints.jsonl`: per starter query the words that lines may use besides those of the request (`Hints`);
- one file a category of the taxonomy: scenario key to lines (`PlaybookLine`);
- `replies.yaml`: sets of replies that lines name (`ReplyVariant`);
- `realism.yaml`: exchanges that are realistic or not (`RealismItem`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from string import Formatter
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.packs import PackClass
from bystander.schemas.starter_queries import StarterQuery, load_starter_queries, read_starter_bytes
from bystander.schemas.taxonomy import Timing

Label = Literal["actionable", "ignorable"]
Kind = Literal["correction_disambiguation", "feasibility_constraint", "goal_suggestion", "cooperative_addition"]

KIND_ORDER: tuple[Kind, ...] = (
    "correction_disambiguation",
    "feasibility_constraint",
    "goal_suggestion",
    "cooperative_addition",
)
"""Kinds of `actionable` in the reference pack's order: options A, B, C, D of the task `label_kind`."""

CATEGORIES = (
    "agreement",
    "assistance",
    "clarification",
    "disagreement",
    "floor_taking",
    "tangentialization",
    "topic_change",
)
_FILES = ("intents.yaml", "hints.jsonl", "replies.yaml", "realism.yaml", *(f"{name}.yaml" for name in CATEGORIES))


def describe_uncovered_classes(classes: Sequence[PackClass]) -> str | None:
    """Return what keeps the playbook from answering for a pack of these classes; None if nothing does.

    Its truth is authored for two classes with their kinds, and its replies for their policies. Other classes draw their
    lines elsewhere, so that no truth of theirs follows from it.
    """
    kinds = {item.key: tuple(kind.key for kind in item.kinds) for item in classes}
    if set(kinds) != set(get_args(Label)):
        return f"the playbook's labels and replies are authored for the classes {' and '.join(get_args(Label))} alone"
    if len(kinds["ignorable"]) > 1 or (len(kinds["actionable"]) > 1 and kinds["actionable"] != KIND_ORDER):
        return f"the playbook knows no kinds but {', '.join(KIND_ORDER)}, in this order, of actionable"
    return None


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IntentSpec(_Frozen):
    """`main` is the slot that a bystander may correct or fill in.

    `go` is how the assistant names the task when it offers to go on; without it, the query's hint `do` is used.
    """

    main: str
    go: str | None = None


class Hints(_Frozen):
    """Words about one starter query that its lines and replies may use.

    do: the request as a verb phrase ("set a timer for twelve minutes"). alt: another value of the main slot. extra:
    what could be asked for on top. block: a clause about the world that stands in the way. check: what to do about it
    first. short: a short answer as a bystander would give it. alt_answer: the answer if `alt` is meant, where it cannot
    be had by putting `alt` into the query's answer.
    """

    text: str
    do: str
    alt: str | None = None
    extra: str | None = None
    block: str | None = None
    check: str | None = None
    short: str | None = None
    alt_answer: str | None = None


class _ForIntents(_Frozen):
    for_: tuple[str, ...] = Field(alias="for", min_length=1)
    not_for: tuple[str, ...] = ()

    def fits(self, intent: str) -> bool:
        """Return whether this is written for `intent` (groups must have been resolved, as loading does)."""
        return intent in self.for_


class ReplyVariant(_ForIntents):
    """One wording of a reply, with slots, for the intents (or groups of intents) in `for` less those in `not_for`."""

    reply: str


class PlaybookLine(_ForIntents):
    """What a bystander says, with slots, and its truth.

    ambiguity: 1 (certainly two people) to 5 (sounds like one person going on), of request and line read together.
    reply and one_speaker_reply name sets in `replies.yaml`; an ignorable line has no `reply` of its own, the query's
    answer is the reply. primary: a template for the request where it must be spoken otherwise (a word that does not
    come). Slots are the hints of `Hints` and: main, Main (capitalised), before and after (the request around main),
    after_gap (what follows when main does not come);
    in replies also go, answer_plain (without its "Okay"), answer_alt (with `alt` in place of main).
    """

    line: str
    timings: tuple[Timing, ...] = (Timing.WITHIN_SENTENCE, Timing.AFTER_COMPLETION)
    label: Label
    kind: Kind | None = None
    ambiguity: int = Field(ge=1, le=5)
    reply: str | None = None
    one_speaker_reply: str | None = None
    primary: str | None = None

    @model_validator(mode="after")
    def _truth_is_complete(self) -> PlaybookLine:
        actionable = self.label == "actionable"
        if actionable != (self.kind is not None) or actionable != (self.reply is not None):
            raise ValueError(
                f"{self.line!r}: an actionable line needs a kind and a reply, an ignorable one has neither"
            )
        if (self.ambiguity >= 4) != (self.one_speaker_reply is not None):
            raise ValueError(f"{self.line!r}: a line of ambiguity 4 or 5, and no other, needs a one_speaker_reply")
        return self


class RealismItem(_Frozen):
    """An exchange and whether it could happen beside a voice assistant; `fault` names what is wrong with it if not."""

    primary: str
    third_party: str
    scenario: str
    timing: Timing
    realistic: bool
    fault: (
        Literal[
            "answers_as_assistant",
            "nonsense",
            "wrong_context",
            "not_a_request",
            "repeats_request",
            "impossible",
            "wrong_scenario",
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _fault_is_named(self) -> RealismItem:
        if self.realistic == (self.fault is not None):
            raise ValueError(f"{self.third_party!r}: an unrealistic exchange, and no other, names its fault")
        return self


@dataclass(frozen=True, slots=True)
class PlaybookData:
    """All authored data, validated; `digest` is the SHA-256 of the files that it came from."""

    queries: tuple[StarterQuery, ...]
    hints: Mapping[str, Hints]
    intents: Mapping[str, IntentSpec]
    lines: Mapping[str, tuple[PlaybookLine, ...]]
    replies: Mapping[str, tuple[ReplyVariant, ...]]
    realism: tuple[RealismItem, ...]
    digest: str


@cache
def list_slots(template: str) -> frozenset[str]:
    """Return the names of the slots in a template."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


@lru_cache(maxsize=1)
def load_playbook_data() -> PlaybookData:
    """Load and check the playbook that ships with the package.

    Raises:
        EngineSetupError: names the file and what is wrong in it.
    """
    raw = {name: _read(name) for name in _FILES}
    digest = hashlib.sha256(read_starter_bytes())
    for name in _FILES:
        digest.update(name.encode() + b"\0" + raw[name] + b"\0")
    queries = load_starter_queries()
    spec = _parse("intents.yaml", raw, dict[str, Any])
    intents = _validate("intents.yaml", spec.get("intents"), dict[str, IntentSpec])
    groups = _validate("intents.yaml", spec.get("groups"), dict[str, frozenset[str]])
    rows = [json.loads(line) for line in raw["hints.jsonl"].decode("utf-8").splitlines()]
    lines: dict[str, tuple[PlaybookLine, ...]] = {}
    for category in CATEGORIES:
        lines |= _parse(f"{category}.yaml", raw, dict[str, tuple[PlaybookLine, ...]])
    replies: dict[str, tuple[ReplyVariant, ...]] = _parse("replies.yaml", raw, dict[str, tuple[ReplyVariant, ...]])
    _check_references(intents, groups, lines, replies)
    data = PlaybookData(
        queries=queries,
        hints={hint.text: hint for hint in _validate("hints.jsonl", rows, list[Hints])},
        intents=intents,
        lines={key: tuple(_resolve(item, groups) for item in items) for key, items in lines.items()},
        replies={key: tuple(_resolve(item, groups) for item in items) for key, items in replies.items()},
        realism=_parse("realism.yaml", raw, tuple[RealismItem, ...]),
        digest=digest.hexdigest(),
    )
    _check_queries(data)
    return data


def _read(name: str) -> bytes:
    folder = resources.files("bystander.tasks.engines").joinpath("data/playbook")
    try:
        return folder.joinpath(name).read_bytes()
    except OSError as exc:
        raise EngineSetupError(f"playbook file {name} cannot be read; install the package again") from exc


def _parse(name: str, raw: Mapping[str, bytes], kind: Any) -> Any:
    try:
        return _validate(name, yaml.load(raw[name], Loader=_LOADER), kind)
    except yaml.YAMLError as exc:
        raise EngineSetupError(f"playbook file {name} is not valid YAML: {exc}") from exc


def _validate(name: str, value: Any, kind: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as exc:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
        raise EngineSetupError(f"playbook file {name}: {faults}") from exc


def _resolve(item: _Item, groups: Mapping[str, frozenset[str]]) -> _Item:
    """Return the item with its groups replaced by their intents."""
    wanted = {intent for name in item.for_ for intent in groups.get(name, (name,))}
    unwanted = {intent for name in item.not_for for intent in groups.get(name, (name,))}
    return item.model_copy(update={"for_": tuple(sorted(wanted - unwanted)), "not_for": ()})


def _check_queries(data: PlaybookData) -> None:
    """Raise if a starter query lacks its hints, or its intent the main slot."""
    for query in data.queries:
        if query.text not in data.hints:
            raise EngineSetupError(f"playbook file hints.jsonl: nothing on the starter query {query.text!r}")
        spec = data.intents.get(query.intent)
        if spec is None or spec.main not in query.slots:
            raise EngineSetupError(
                f"playbook file intents.yaml: intent {query.intent!r} lacks the slot of {query.text!r}"
            )


def _check_references(
    intents: Mapping[str, IntentSpec],
    groups: Mapping[str, frozenset[str]],
    lines: Mapping[str, tuple[PlaybookLine, ...]],
    replies: Mapping[str, tuple[ReplyVariant, ...]],
) -> None:
    """Raise if a line or reply names an intent, group or reply set that is not there."""
    known = set(intents) | set(groups)
    items: list[PlaybookLine | ReplyVariant] = [item for rows in lines.values() for item in rows]
    items += [item for rows in replies.values() for item in rows]
    for item in items:
        unknown = sorted((set(item.for_) | set(item.not_for)) - known)
        if unknown:
            raise EngineSetupError(f"playbook: {item!r} is for unknown intents or groups {', '.join(unknown)}")
        if isinstance(item, PlaybookLine):
            lost = {item.reply, item.one_speaker_reply} - set(replies) - {None}
            if lost:
                raise EngineSetupError(
                    f"playbook: the line {item.line!r} names unknown replies {', '.join(map(str, lost))}"
                )


_Item = TypeVar("_Item", PlaybookLine, ReplyVariant)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
