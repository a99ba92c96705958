"""A deterministic text engine without a model: texts that keep the rules, in no time."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.identity import digest_json, make_rng
from bystander.schemas.packs import ReplyConduct
from bystander.schemas.taxonomy import Scenario, Taxonomy, load_taxonomy
from bystander.schemas.text_engine_configs import FakeTextConfig
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    CONDUCT,
    JUDGE_TASKS,
    LABEL_CLASS,
    SCORE_AMBIGUITY,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
)
from bystander.tasks.engines.fake_verdicts import FAKE_VERDICTS
from bystander.tasks.engines.rule_judge import judge_by_rules

_REVISION = "2"
_RUBRICS = frozenset(task.name for task in JUDGE_TASKS)
_UNREALISTIC_SHARE = 0.05
_AMBIGUITY_SHARES = (0.3, 0.3, 0.2, 0.12, 0.08)
"""Shares of the scores 1 to 5: a fifth at 4 or above, so that hard negatives can be built."""

_WHO = ("grandpa", "auntie", "cousin", "neighbour", "teacher", "uncle", "plumber", "doctor", "granny", "coach")
_DOES = ("keeps", "wants", "painted", "borrowed", "found", "forgot", "sold", "carries", "washed", "dropped")
_WHICH = ("yellow", "tiny", "broken", "woollen", "rusty", "striped", "hollow", "velvet", "wooden", "spotted")
_WHAT = ("ladder", "kettle", "bucket", "lantern", "blanket", "drum", "basket", "mitten", "barrel", "pillow")
_WHERE = ("upstairs", "outside", "yesterday", "tonight", "downstairs", "again", "lately", "meanwhile")
_QUESTION = re.compile(
    r"(what|when|where|who|whom|whose|why|which|how|is|are|am|was|were|do|does|did|can|could|will|would|shall|should)\b",
    re.IGNORECASE,
)
_CONFIRMATIONS = (
    "Certainly, starting right away.",
    "Sure thing, one moment please.",
    "Consider it done.",
    "Of course, here we go.",
)

OnReply = Callable[[int, TextReply], None]


class FakeTextEngine:
    """Answers every task of `schemas.text_tasks` from the request's variables and seed.

    Labels, kinds and ambiguity are functions of the texts alone, so that asking again cannot change them. `calls`
    counts the requests answered so far.
    """

    def __init__(
        self,
        config: FakeTextConfig | None = None,  # noqa: ARG002 - adapters are built alike
        *,
        taxonomy: Taxonomy | None = None,
        fail_with: Callable[[TextRequest], RowFault | None] | None = None,
    ) -> None:
        """Take the scenarios, by default the built-in ones, and faults to inject.

        `fail_with` may return a fault for a request or raise an `EngineError`; it is asked before each answer.
        """
        self.calls = 0
        self._taxonomy = taxonomy
        self._fail_with = fail_with
        self._lock = threading.Lock()

    @property
    def identity(self) -> EngineIdentity:
        """Raised in revision whenever an answer changes."""
        return EngineIdentity(kind="text", name="fake_text", model="fake", revision=_REVISION)

    def generate(self, requests: Sequence[TextRequest], on_reply: OnReply | None = None) -> list[TextReply | RowFault]:
        """Return one reply a request, in order. Fault: `unknown_task` for a task that is none of ours."""
        replies: list[TextReply | RowFault] = []
        for index, request in enumerate(requests):
            with self._lock:
                self.calls += 1
            fault = self._fail_with(request) if self._fail_with is not None else None
            reply = fault or self._answer(request)
            if on_reply is not None and isinstance(reply, TextReply):
                on_reply(index, reply)
            replies.append(reply)
        return replies

    def close(self) -> None:
        """Do nothing."""

    def _answer(self, request: TextRequest) -> TextReply | RowFault:
        if request.options:
            return _score_options(request)
        if request.task in FAKE_VERDICTS:
            return _reply_with(FAKE_VERDICTS[request.task](request.variables))
        if request.task == WRITE_INTERRUPTION.name:
            return _reply_with(
                {
                    "primary": _write_sentence(request.variables["request"]),
                    "third_party": self._write_line(request),
                }
            )
        if request.task == WRITE_REPLY.name:
            return _reply_with({"reply": _write_reply(request.variables)})
        if request.task == WRITE_ONE_SPEAKER_REPLY.name:
            return _reply_with({"reply": _confirm(request.variables["primary"], avoid="")})
        if request.task in _RUBRICS:
            return judge_by_rules(request.task, request.variables)
        return RowFault("unknown_task", f"the fake text engine has no answer to task {request.task!r}")

    def _write_line(self, request: TextRequest) -> str:
        """Return a bystander's line of 5 to 12 words.

        Where the reply's schema asks for an opening, it begins with one of the scenario's.
        """
        rng = _make_rng(request, "line")
        scenario = self._find_scenario(request.variables["scenario"])
        words = ["the", _pick(rng, _WHO), _pick(rng, _DOES), "that", _pick(rng, _WHICH), _pick(rng, _WHAT)]
        if rng.random() < 0.5:
            words.append(_pick(rng, _WHERE))
        opening = ""
        end = "."
        if scenario is not None:
            end = scenario.ends_with[0]
            if scenario.openings and _asks_for_pattern(request.reply_schema):
                plain = [opening for opening in scenario.openings if re.fullmatch(r"[A-Za-z ,.?!]+", opening)]
                opening = _pick(rng, plain or scenario.openings)
        line = opening + " ".join(words) + end
        return line[0].upper() + line[1:]

    def _find_scenario(self, key: str) -> Scenario | None:
        with self._lock:
            if self._taxonomy is None:
                self._taxonomy = load_taxonomy()
        try:
            return self._taxonomy[key]
        except KeyError:
            return None


def _score_options(request: TextRequest) -> TextReply:
    options = request.options
    if request.task == SCORE_AMBIGUITY.name and len(options) == len(_AMBIGUITY_SHARES):
        # All weight on one score, so that the expected score is that score and the shares hold at any threshold.
        chosen = int(np.searchsorted(np.cumsum(_AMBIGUITY_SHARES), _make_rng_of_texts(request).random(), "right"))
        return _reply_with_option(options, min(chosen, len(options) - 1), 1.0)
    if request.task == CHECK_REALISM.name and len(options) == 2:
        return _reply_with_option(options, int(_make_rng(request, "realism").random() < _UNREALISTIC_SHARE), 0.9)
    if request.task == LABEL_CLASS.name and len(options) == 2:
        # Every class has a draw of its own, and so has "none of these". The highest wins: of n classes each gets one
        # row in n, though the question is about one class and does not tell how many there are.
        none = float(make_rng(0, digest_json(_list_said(request.variables)), request.task).random())
        says_so = (1.0 + float(_make_rng_of_texts(request).random()) - none) / 2
        return _reply_with_option(options, int(says_so < 0.5), max(says_so, 1.0 - says_so))
    return _reply_with_option(options, int(_make_rng_of_texts(request).integers(len(options))), 0.8)


def _list_said(variables: Mapping[str, str]) -> list[str]:
    return [variables.get("primary", ""), variables.get("third_party", "")]


def _reply_with_option(options: Sequence[str], chosen: int, weight: float) -> TextReply:
    rest = (1 - weight) / (len(options) - 1) if len(options) > 1 else 0.0
    first = weight if len(options) > 1 else 1.0
    return TextReply(
        text=options[chosen],
        option_probs={option: first if i == chosen else rest for i, option in enumerate(options)},
        option_source="logprobs",
    )


def _reply_with(value: Mapping[str, Any]) -> TextReply:
    return TextReply(text=json.dumps(value), value=value)


def _write_sentence(request: str) -> str:
    text = request.strip()
    if not text:
        return "Hello there."
    if text[-1] not in ".?!":
        text = text.rstrip(",;: ") + ("?" if _QUESTION.match(text) else ".")
    return text[0].upper() + text[1:]


def _write_reply(variables: Mapping[str, str]) -> str:
    """Return a reply that does what can be told of the class's policy, whatever the class."""
    conduct = ReplyConduct.decode(variables[CONDUCT])
    answer = _confirm(variables["primary"], avoid=variables["third_party"])
    if not conduct.must_mention:
        return f"{answer} Is that right?" if conduct.must_ask else answer
    if not conduct.may_take_up:
        return f"{answer} Someone else spoke as well{', is that right?' if conduct.must_ask else '.'}"
    remark = variables["third_party"].rstrip(".?! ")
    said = f"Someone beside you mentioned this: {remark}."
    return f"{said} {'Shall I take that into account before I go on?' if conduct.must_ask else 'So it is done.'}"


def _confirm(primary: str, avoid: str) -> str:
    """Return a confirmation that shares no content word with `avoid`."""
    taken = _content_words(avoid)
    confirmation = next((c for c in _CONFIRMATIONS if not _content_words(c) & taken), "Okay.")
    about = [word for word in re.findall(r"[A-Za-z']+", primary) if word.lower() not in taken][:8]
    return f"{confirmation} That was: {' '.join(about).lower()}." if about else confirmation


def _content_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z']+", text.lower()) if len(word) > 2}


def _asks_for_pattern(schema: Mapping[str, Any] | None) -> bool:
    return "pattern" in ((schema or {}).get("properties", {}).get("third_party", {}))


def _make_rng(request: TextRequest, purpose: str) -> np.random.Generator:
    return make_rng(request.seed, digest_json(dict(request.variables)), request.task, purpose)


def _make_rng_of_texts(request: TextRequest) -> np.random.Generator:
    return make_rng(0, digest_json(dict(request.variables)), request.task)


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
