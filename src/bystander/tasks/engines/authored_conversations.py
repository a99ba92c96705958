"""Conversations from authored texts: what an assistant says, and with what a user overlaps it.

`data/conversations/<language>.yaml` has assistant turns with substances of their own, and substances that fit any turn.
Backchannels are those of the lexicon. Nothing here is a recording, or was written by a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.sides import Sided
from bystander.tasks.texts.backchannels import load_lexicon

_DATA = resources.files("bystander.tasks.engines") / "data" / "conversations"
_ALL = Sided()


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AssistantTurn(_Frozen):
    """What the assistant says, and what only fits as an interruption of this."""

    say: str = Field(min_length=1)
    own: tuple[str, ...] = Field(min_length=1)


class AuthoredTexts(_Frozen):
    """The texts of one language; `general` are substances that fit any turn."""

    turns: tuple[AssistantTurn, ...] = Field(min_length=1)
    general: tuple[str, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class AuthoredConversation:
    """One draw: of the three texts, a row takes those that its category has."""

    assistant_text: str
    backchannel: str
    substance: str


def read_conversation_bytes(language: str) -> bytes:
    """Return the file of a language's texts, for digests."""
    return (_DATA / f"{language}.yaml").read_bytes()


@cache
def load_authored_texts(language: str) -> AuthoredTexts:
    """Return the texts of a language.

    Raises:
        EngineSetupError: the installed file is damaged.
    """
    try:
        return AuthoredTexts.model_validate(yaml.safe_load(read_conversation_bytes(language)))
    except (OSError, yaml.YAMLError, ValidationError) as exc:
        raise EngineSetupError(f"conversations/{language}.yaml: cannot be read ({exc}); reinstall bystander") from exc


class NoTextsError(Exception):
    """A side has no texts to draw from."""


def draw_conversation(language: str, category: str, seed: int, side: Sided = _ALL) -> AuthoredConversation:
    """Return the conversation of a seed. Half of the substances are the turn's own, half fit any turn.

    Args:
        language: of the texts.
        category: what is wanted of it.
        seed: decides which it is.
        side: which texts may be drawn. A turn's own substances are on its side.

    Raises:
        NoTextsError: there are none on that side.
    """
    spoken = load_lexicon(language).spoken
    turns, general = _list_texts(language, side)
    if not turns or not general:
        raise NoTextsError(
            f"none of the authored {'turns' if not turns else 'substances'} in {language!r} is on the side "
            f"{side.use!r} at hold_out {side.hold_out:g}"
        )
    draw = int(digest_json([seed, language, category]), 16)
    draw, at = divmod(draw, len(turns))
    turn = turns[at]
    draw, own = divmod(draw, 2)
    pool = turn.own if own else general
    draw, at = divmod(draw, len(pool))
    return AuthoredConversation(turn.say, spoken[draw % len(spoken)], pool[at])


@cache
def _list_texts(language: str, side: Sided) -> tuple[list[AssistantTurn], list[str]]:
    """Return the turns, and the substances that fit any, of one side."""
    texts = load_authored_texts(language)
    return (
        [turn for turn in texts.turns if side.admits("sid_text", turn.say)],
        [text for text in texts.general if side.admits("sid_text", text)],
    )
