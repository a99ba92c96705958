"""A text engine without a model for SID: a lexicon tags turns, and authored texts make conversations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.sid_engine_configs import RuleTaggerConfig
from bystander.schemas.sides import Sided
from bystander.schemas.text_tasks import CHECK_NEW_INTENT, SID_TASKS, SIDE, TAG_BREAK, WRITE_CONVERSATION
from bystander.tasks.engines.authored_conversations import NoTextsError, draw_conversation, read_conversation_bytes
from bystander.tasks.texts.backchannels import LEXICON_LANGUAGES, find_new_intent, read_lexicon_bytes
from bystander.tasks.texts.turn_words import find_turn_words, strip_marks

_VERSION = "1"
"""Raised whenever the same data would give other replies."""

_LANGUAGES = {
    task.name: language
    for tasks in (TAG_BREAK, CHECK_NEW_INTENT, WRITE_CONVERSATION)
    for language, task in tasks.items()
}


class RuleTagger:
    """Answers the tasks of SID from `request.variables` and the seed alone; English and Mandarin.

    A break lies before the first word that is no acknowledgement by the lexicon (`tasks.texts.backchannels`). Options
    get probability 1 or 0. Conversations are authored texts, recombined by the seed, those of one side where the
    request asks for it; the topic is not heeded. Other tasks come back as a `RowFault` with reason `outside_coverage`.
    """

    def __init__(self, config: RuleTaggerConfig | None = None) -> None:
        del config  # it has no settings
        digest = hashlib.sha256(read_lexicon_bytes())
        for language in LEXICON_LANGUAGES:
            digest.update(read_conversation_bytes(language))
        self._identity = EngineIdentity(
            kind="text",
            name="rule_tagger",
            model="rule_tagger",
            revision=digest.hexdigest(),
            settings=(("version", _VERSION),),
        )

    @property
    def identity(self) -> EngineIdentity:
        """The revision is the digest of the lexicon and the authored texts."""
        return self._identity

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]:
        """Answer each request, in order."""
        replies: list[TextReply | RowFault] = []
        for index, request in enumerate(requests):
            reply = _answer(request)
            if on_reply is not None and isinstance(reply, TextReply):
                on_reply(index, reply)
            replies.append(reply)
        return replies

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _answer(request: TextRequest) -> TextReply | RowFault:
    language = _LANGUAGES.get(request.task)
    if language is None:
        known = ", ".join(task.name for task in SID_TASKS)
        return RowFault("outside_coverage", f"the rule tagger does not know the task {request.task!r}, only {known}")
    texts = request.variables
    try:
        if request.task == WRITE_CONVERSATION[language].name:
            side = Sided.decode_side(texts[SIDE]) if SIDE in texts else Sided()
            return _write(asdict(draw_conversation(language, texts["category"], request.seed, side)))
        index = find_new_intent(texts["text"], language, texts["context"])
        if request.task == TAG_BREAK[language].name:
            words = find_turn_words(texts["text"])
            word = "" if index is None else strip_marks(words[index].text)
            return _write({"word": word, "number": 0 if index is None else index + 1})
        begun = index is not None and index < len(find_turn_words(texts["heard"]))
    except NoTextsError as exc:
        return RowFault("outside_coverage", str(exc))
    except KeyError as exc:
        return RowFault("outside_coverage", f"the request lacks the variable {exc} that the rule tagger reads")
    if len(request.options) != 2:
        return RowFault("outside_coverage", f"{request.task} has two options, not {list(request.options)}")
    truth = request.options[0 if begun else 1]
    return TextReply(
        text=truth,
        option_probs={option: float(option == truth) for option in request.options},
        option_source="logprobs",
    )


def _write(value: dict[str, Any]) -> TextReply:
    return TextReply(text=json.dumps(value, ensure_ascii=False), value=value)
