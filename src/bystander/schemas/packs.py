"""A prompt pack as data: classes with criteria and policies, templates, reply formats.

`bystander.prompts` loads packs from disk and renders their templates; stages see only this model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bystander.schemas.engines import Message


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PackKind(_Frozen):
    """A kind within a class, e.g. `feasibility_constraint` within `actionable`."""

    key: str = Field(pattern=r"^[a-z][a-z_]*$")
    definition: str


class ReplyConduct(NamedTuple):
    """What a class asks of its replies, as far as rules can tell.

    It goes as text, in the variable `conduct`, to engines that read no prompts.

    `must_ask`: the reply leaves the decision to the user, because it may end in nothing but a question mark.
    """

    may_mention: bool
    must_mention: bool
    may_take_up: bool
    must_ask: bool

    def encode(self) -> str:
        """Return a text that `decode` reads, such as `may_mention must_mention`."""
        return " ".join(name for name, holds in self._asdict().items() if holds)

    @classmethod
    def decode(cls, text: str) -> ReplyConduct:
        """Return what `encode` wrote."""
        return cls(*(name in text.split() for name in cls._fields))


class PackClass(_Frozen):
    """A class of interruptions: when it applies and how the assistant answers.

    `mentions_third_party`: whether a reply of this class may refer to the remark; if not, one that does is rejected.
    `requires_mention`: whether it must, else it is rejected. `takes_up_remark`: whether a reply may use words that only
    the remark has; without it, where it may refer to the remark. Of two classes that fit a remark equally well the one
    that the pack names first is taken. `reply_openings` and `reply_ends_with` are literal
    beginnings and final marks of a reply that keep a small model to the policy (`guided_openings` of the reply stage).
    `share` says how many rows of the class a build has, in proportion to the other classes', where nobody has set
    `targets.labels` and the profile's are those of other classes.
    """

    SHOWN_PROPERTIES: ClassVar[frozenset[str]] = frozenset({"conduct"})
    """What templates may read of it beside its fields."""

    key: str = Field(pattern=r"^[a-z][a-z_]*$")
    criteria: str
    policy: str
    mentions_third_party: bool
    requires_mention: bool = False
    takes_up_remark: bool | None = None
    kinds: tuple[PackKind, ...] = ()
    reply_openings: tuple[str, ...] = ()
    reply_ends_with: tuple[str, ...] = (".", "!", "?")
    share: float = Field(1.0, gt=0, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _mention_is_allowed(self) -> PackClass:
        if self.requires_mention and not self.mentions_third_party:
            raise ValueError("requires_mention: needs mentions_third_party to be true")
        if self.takes_up_remark and not self.mentions_third_party:
            raise ValueError("takes_up_remark: needs mentions_third_party to be true")
        return self

    @property
    def conduct(self) -> str:
        """What can be told of a right reply without a model, as `ReplyConduct.decode` reads it."""
        return ReplyConduct(
            may_mention=self.mentions_third_party,
            must_mention=self.requires_mention,
            may_take_up=self.mentions_third_party if self.takes_up_remark is None else self.takes_up_remark,
            must_ask=set(self.reply_ends_with) == {"?"},
        ).encode()


class ReplyExample(_Frozen):
    """An example of a task's reply: what the task was given, and a reply that fits its schema.

    `given` names string variables of the task; `class` and `scenario` are given by their keys.
    """

    given: dict[str, str] = Field(default_factory=dict)
    reply: dict[str, Any]


class PromptPack(Protocol):
    """What stages use of a loaded pack."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str:
        """SHA-256 over the pack's files."""
        ...

    @property
    def classes(self) -> tuple[PackClass, ...]: ...

    def messages(self, task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the chat messages of a task; the constant part comes first, so that servers can reuse its prefix."""
        ...

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply, or None where it is scored by options."""
        ...

    def answers(self, task: str) -> tuple[str, str]:
        """Return the two options of a task of `TWO_OPTION_TASKS`: the one that says so, and the other."""
        ...

    def describe_task(self, task: str) -> Mapping[str, Any]:
        """Return the parts of the pack that decide this task's prompts, digests for texts: JSON-ready data."""
        ...

    def task_digest(self, task: str) -> str:
        """Return a digest over what decides this task's prompts: a change elsewhere in the pack leaves it alone."""
        ...
