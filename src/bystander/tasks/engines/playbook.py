"""A text engine that answers from authored dialogues: deterministic, exact, and silent outside its coverage."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from bystander.schemas import text_tasks
from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.identity import digest_json
from bystander.schemas.starter_queries import normalise_text
from bystander.schemas.text_engine_configs import PlaybookTextConfig
from bystander.tasks.engines.playbook_data import KIND_ORDER, PlaybookData, RealismItem, load_playbook_data
from bystander.tasks.engines.playbook_dialogues import PlaybookDialogue, expand_query, list_primaries
from bystander.tasks.engines.rule_judge import judge_by_rules

_VERSION = "2"
"""Raised whenever the same data would give other replies."""

_ASK_AGAIN = "I did not catch all of that. Could you say it again?"

Answer = TextReply | RowFault


class PlaybookTextEngine:
    """Answers the tasks of `schemas.text_tasks` from `request.variables` alone.

    A request that is no starter query, a scenario without a line for it, or an exchange that the playbook lacks comes
    back as a `RowFault` with reason `outside_coverage`. Options get probability 1 (the truth) or 0, so that an
    expectation over them is exact. Label, kind and ambiguity hang on the line alone; where a cut request could be one
    of several with different replies, none is given.

    A one-speaker reply is also given to exchanges that no one person would say, and to a request alone (an empty
    `third_party`): systems without ears, or with half of them, would answer those. There a request that could be one
    of several is asked for again.

    Rubrics are answered by `rule_judge`, whatever the exchange.
    """

    def __init__(self, config: PlaybookTextConfig | None = None, data: PlaybookData | None = None) -> None:
        del config  # it has no settings
        self._data = data or load_playbook_data()
        self._queries = {normalise_text(query.text): i for i, query in enumerate(self._data.queries)}
        self._dialogues: dict[int, tuple[PlaybookDialogue, ...]] = {}
        self._by_scenario: dict[int, dict[tuple[str, str], tuple[PlaybookDialogue, ...]]] = {}
        self._by_line: dict[int, dict[str, list[tuple[str, PlaybookDialogue]]]] = {}
        self._primaries: list[tuple[str, int]] = []
        self._realism: dict[tuple[str, str], RealismItem] = {}
        for item in self._data.realism:
            self._realism.setdefault(_key(item.primary, item.third_party), item)
        self._tasks: Mapping[str, Callable[[TextRequest], Answer]] = {
            text_tasks.WRITE_INTERRUPTION.name: self._write_interruption,
            text_tasks.CHECK_REALISM.name: self._check_realism,
            text_tasks.LABEL_CLASS.name: self._label_class,
            text_tasks.LABEL_KIND.name: self._label_kind,
            text_tasks.WRITE_REPLY.name: self._write_reply,
            text_tasks.WRITE_ONE_SPEAKER_REPLY.name: self._write_one_speaker_reply,
            text_tasks.SCORE_AMBIGUITY.name: self._score_ambiguity,
            **dict.fromkeys((task.name for task in text_tasks.JUDGE_TASKS), _judge),
        }

    @property
    def identity(self) -> EngineIdentity:
        """The revision is the digest of the data files, so that a changed playbook changes every fingerprint."""
        return EngineIdentity(
            kind="text",
            name="playbook",
            model="playbook",
            revision=self._data.digest,
            settings=(("version", _VERSION),),
        )

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]:
        """Answer each request, in order."""
        replies: list[TextReply | RowFault] = []
        for index, request in enumerate(requests):
            reply = self._answer(request)
            if on_reply is not None and isinstance(reply, TextReply):
                on_reply(index, reply)
            replies.append(reply)
        return replies

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def find_dialogue(self, primary: str, third_party: str) -> PlaybookDialogue | None:
        """Return the dialogue of these texts, or None. `primary` may be cut and end in "..."."""
        return next(self._find_dialogues(primary, third_party), None)

    def _find_dialogues(self, primary: str, third_party: str) -> Iterator[PlaybookDialogue]:
        """Yield all dialogues that these texts can come from; there are several only where the request is cut."""
        said = normalise_text(third_party)
        text, is_cut = normalise_text(primary), primary.rstrip().endswith("...")
        for index in self._find_queries(text):
            for whole, dialogue in self._index_lines(index).get(said, ()):
                if whole == text or (is_cut and whole.startswith(text)):
                    yield dialogue

    def _answer(self, request: TextRequest) -> Answer:
        task = self._tasks.get(request.task)
        if task is None:
            return RowFault("outside_coverage", f"the playbook does not know the task {request.task!r}")
        try:
            return task(request)
        except KeyError as exc:
            return RowFault("outside_coverage", f"the request lacks the variable {exc} that the playbook reads")

    def _write_interruption(self, request: TextRequest) -> Answer:
        text = request.variables["request"]
        scenario, timing = request.variables["scenario"], request.variables["timing"]
        index = self._queries.get(normalise_text(text))
        if index is None:
            return RowFault("outside_coverage", f"the playbook has no starter query {text!r}")
        fitting = self._group(index).get((scenario, timing), ())
        if not fitting:
            intent = self._data.queries[index].intent
            return RowFault("outside_coverage", f"the playbook has no line for {scenario}, {timing}, {intent}")
        draw = int(digest_json([request.seed, text, scenario, timing])[:16], 16)
        # The label is drawn first, so that rows come out half actionable wherever both labels are there.
        labels = sorted({dialogue.label for dialogue in fitting})
        draw, chosen = divmod(draw, len(labels))
        pool = [dialogue for dialogue in fitting if dialogue.label == labels[chosen]]
        dialogue = pool[draw % len(pool)]
        return _write({"primary": dialogue.primary, "third_party": dialogue.third_party})

    def _check_realism(self, request: TextRequest) -> Answer:
        primary, third_party = request.variables["primary"], request.variables["third_party"]
        item = self._realism.get(_key(primary, third_party))
        if item is not None:
            return _choose_first(request, item.realistic)
        if self.find_dialogue(primary, third_party) is None:
            return _miss(request)
        return _choose_first(request, True)

    def _label_class(self, request: TextRequest) -> Answer:
        dialogue = self._look_up(request)
        if dialogue is None:
            return _miss(request)
        return _choose_first(request, dialogue.label == request.variables["class"])

    def _label_kind(self, request: TextRequest) -> Answer:
        dialogue = self._look_up(request)
        if dialogue is None or dialogue.kind is None:
            return _miss(request)
        if len(request.options) != len(KIND_ORDER):
            return RowFault(
                "outside_coverage", f"the playbook knows {len(KIND_ORDER)} kinds, not {len(request.options)}"
            )
        return _choose(request, request.options[KIND_ORDER.index(dialogue.kind)])

    def _score_ambiguity(self, request: TextRequest) -> Answer:
        dialogue = self._look_up(request)
        return _miss(request) if dialogue is None else _choose(request, str(dialogue.ambiguity))

    def _write_reply(self, request: TextRequest) -> Answer:
        found = list(self._find_dialogues(request.variables["primary"], request.variables["third_party"]))
        if not found:
            return _miss(request)
        if found[0].label != request.variables["class"]:
            return RowFault("outside_coverage", f"the playbook holds this exchange as {found[0].label}")
        return _write_only_reply(request, {dialogue.reply for dialogue in found})

    def _write_one_speaker_reply(self, request: TextRequest) -> Answer:
        primary, third_party = request.variables["primary"], request.variables["third_party"]
        if not third_party.strip():
            return _write_or_ask_again(request, self._find_answers(primary))
        found = list(self._find_dialogues(primary, third_party))
        authored = {d.one_speaker_reply for d in found if d.one_speaker_reply is not None}
        if authored:
            return _write_only_reply(request, authored)
        return _write_or_ask_again(request, {d.heard_as_one for d in found})

    def _find_answers(self, primary: str) -> set[str]:
        """Return the answers to all starter queries that a request, as spoken, can be."""
        text, is_cut = normalise_text(primary), primary.rstrip().endswith("...")
        queries = (self._data.queries[index] for index in self._find_queries(text))
        return {
            query.answer
            for query in queries
            if is_cut or any(normalise_text(spoken) == text for spoken in list_primaries(self._data, query))
        }

    def _look_up(self, request: TextRequest) -> PlaybookDialogue | None:
        return self.find_dialogue(request.variables["primary"], request.variables["third_party"])

    def _expand(self, index: int) -> tuple[PlaybookDialogue, ...]:
        if index not in self._dialogues:
            self._dialogues[index] = tuple(expand_query(self._data, self._data.queries[index]))
        return self._dialogues[index]

    def _group(self, index: int) -> dict[tuple[str, str], tuple[PlaybookDialogue, ...]]:
        if index not in self._by_scenario:
            groups: dict[tuple[str, str], list[PlaybookDialogue]] = {}
            for dialogue in self._expand(index):
                groups.setdefault((dialogue.scenario, dialogue.timing.value), []).append(dialogue)
            self._by_scenario[index] = {key: tuple(group) for key, group in groups.items()}
        return self._by_scenario[index]

    def _index_lines(self, index: int) -> dict[str, list[tuple[str, PlaybookDialogue]]]:
        """Return the dialogues of a query by their normalised line, each with its normalised request."""
        if index not in self._by_line:
            found: dict[str, list[tuple[str, PlaybookDialogue]]] = {}
            for dialogue in self._expand(index):
                entry = (normalise_text(dialogue.primary), dialogue)
                found.setdefault(normalise_text(dialogue.third_party), []).append(entry)
            self._by_line[index] = found
        return self._by_line[index]

    def _find_queries(self, text: str) -> list[int]:
        """Return the queries whose request, as spoken, begins with the normalised `text`, in the order of the file."""
        if text in self._queries:
            return [self._queries[text]]
        if not self._primaries:
            data = self._data
            spoken = {
                (normalise_text(text), i)
                for i, query in enumerate(data.queries)
                for text in list_primaries(data, query)
            }
            self._primaries = sorted(spoken)
        found: set[int] = set()
        for said, index in self._primaries[bisect_left(self._primaries, (text, -1)) :]:
            if not said.startswith(text):
                break
            found.add(index)
        return sorted(found)


def _judge(request: TextRequest) -> Answer:
    return judge_by_rules(request.task, request.variables)


def _key(primary: str, third_party: str) -> tuple[str, str]:
    return normalise_text(primary), normalise_text(third_party)


def _write(value: Mapping[str, str]) -> TextReply:
    return TextReply(text=json.dumps(value, ensure_ascii=False), value=value)


def _write_only_reply(request: TextRequest, replies: set[str]) -> Answer:
    if len(replies) > 1:
        return RowFault("outside_coverage", f"the cut request {request.variables['primary']!r} could be one of several")
    return _write({"reply": replies.pop()}) if replies else _miss(request)


def _write_or_ask_again(request: TextRequest, replies: set[str]) -> Answer:
    return _write({"reply": _ASK_AGAIN}) if len(replies) > 1 else _write_only_reply(request, replies)


def _choose_first(request: TextRequest, says_so: bool) -> Answer:
    if len(request.options) != 2:
        return RowFault("outside_coverage", f"{request.task} has two options, not {list(request.options)}")
    return _choose(request, request.options[0 if says_so else 1])


def _choose(request: TextRequest, truth: str) -> Answer:
    if truth not in request.options:
        return RowFault("outside_coverage", f"{truth!r} is not among the options {list(request.options)}")
    probs = {option: float(option == truth) for option in request.options}
    return TextReply(text=truth, option_probs=probs, option_source="logprobs")


def _miss(request: TextRequest) -> RowFault:
    texts = request.variables
    return RowFault(
        "outside_coverage",
        f"the playbook does not hold {texts['primary']!r} with {texts['third_party']!r} for {request.task}",
    )
