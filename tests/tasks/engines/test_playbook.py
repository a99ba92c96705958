from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from bystander.schemas import text_tasks
from bystander.schemas.engines import RowFault, TextEngine, TextReply, TextRequest
from bystander.schemas.starter_queries import load_starter_queries, normalise_text
from bystander.schemas.taxonomy import Timing
from bystander.tasks.engines.playbook import PlaybookTextEngine
from bystander.tasks.engines.playbook_data import KIND_ORDER, PlaybookLine, RealismItem, load_playbook_data
from bystander.tasks.engines.playbook_dialogues import (
    PlaybookDialogue,
    check_speakable,
    list_dialogues,
    list_realism_items,
)

SCENARIOS = (
    "endorsement",
    "alignment",
    "justification",
    "recall_assistance",
    "elaborative_addition",
    "strategic_reframing",
    "constraint_reminder",
    "modification",
    "entity_specification",
    "detail_confirmation",
    "constraint_clarification",
    "goal_clarification",
    "simple_correction_with_alternative",
    "veto_with_justification",
    "procedural_objection",
    "request_for_deferment",
    "evaluative_commentary",
    "anecdotal_association",
    "knowledge_display",
    "action_invalidation",
    "answer_preemption",
    "expedited_execution",
    "priority_alert",
    "task_coordination",
    "social_engagement",
    "spontaneous_inquiry",
)
YES_NO = (text_tasks.YES, text_tasks.NO)
SCORES = ("1", "2", "3", "4", "5")


@pytest.fixture(scope="module")
def dialogues() -> list[PlaybookDialogue]:
    return list(list_dialogues())


@pytest.fixture(scope="module")
def engine() -> PlaybookTextEngine:
    return PlaybookTextEngine()


def ask(
    engine: TextEngine, task: text_tasks.TextTask, options: tuple[str, ...] = (), seed: int = 0, **variables: str
) -> TextReply | RowFault:
    request = TextRequest(task.name, messages=(), seed=seed, variables=variables, options=options)
    return engine.generate([request])[0]


def ask_choice(
    engine: TextEngine, task: text_tasks.TextTask, options: tuple[str, ...], dialogue: PlaybookDialogue, **more: str
) -> str:
    reply = ask(engine, task, options, primary=dialogue.primary, third_party=dialogue.third_party, **more)
    assert isinstance(reply, TextReply)
    assert reply.option_probs is not None
    assert reply.option_source == "logprobs"
    assert sum(reply.option_probs.values()) == pytest.approx(1)
    return max(reply.option_probs, key=lambda option: reply.option_probs[option] if reply.option_probs else 0)


# ---- the data ---------------------------------------------------------------------------------------------------


def test_every_scenario_has_lines_of_both_labels_in_both_timings(dialogues: list[PlaybookDialogue]) -> None:
    data = load_playbook_data()
    assert set(data.lines) == set(SCENARIOS)
    assert all(len({line.line for line in lines}) >= 8 for lines in data.lines.values())
    seen = {(d.scenario, d.timing, d.label) for d in dialogues}
    assert seen == {(s, t, label) for s in SCENARIOS for t in Timing for label in ("actionable", "ignorable")}


def test_most_queries_have_lines_of_both_labels_in_every_scenario(dialogues: list[PlaybookDialogue]) -> None:
    labels: dict[tuple[str, str, Timing], set[str]] = defaultdict(set)
    for d in dialogues:
        labels[d.query, d.scenario, d.timing].add(d.label)
    cells = len(load_starter_queries()) * len(SCENARIOS) * len(Timing)
    assert len(labels) / cells > 0.95
    assert sum(len(found) == 2 for found in labels.values()) / cells > 0.9


def test_every_expansion_can_be_spoken(dialogues: list[PlaybookDialogue]) -> None:
    for d in dialogues:
        texts = (d.primary, d.third_party, d.reply, d.one_speaker_reply or "Yes.")
        assert all(check_speakable(text) for text in texts), d
        assert all(text[0].isupper() and text[-1] in ".?!" for text in texts), d
        assert 2 <= len(d.third_party.split()) <= 28, d
        assert len(d.primary.split()) <= 34, d


def test_truth_is_complete_and_hangs_on_the_texts_alone(dialogues: list[PlaybookDialogue]) -> None:
    truths: dict[tuple[str, str], tuple[str, str | None, int]] = {}
    answers = {query.text: query.answer for query in load_starter_queries()}
    for d in dialogues:
        assert (d.kind in KIND_ORDER) == (d.label == "actionable")
        assert (d.one_speaker_reply is not None) == (d.ambiguity >= 4)
        assert d.label == "actionable" or d.reply == answers[d.query]
        key = (normalise_text(d.primary), normalise_text(d.third_party))
        assert truths.setdefault(key, (d.label, d.kind, d.ambiguity)) == (d.label, d.kind, d.ambiguity), d


def test_a_good_share_could_be_one_person(dialogues: list[PlaybookDialogue]) -> None:
    assert sum(d.ambiguity >= 4 for d in dialogues) / len(dialogues) >= 0.15
    lines = [line for lines in load_playbook_data().lines.values() for line in lines]
    assert sum(line.ambiguity >= 4 for line in lines) / len(lines) >= 0.15


def test_actionable_replies_leave_the_decision_to_the_user(dialogues: list[PlaybookDialogue]) -> None:
    others = ("someone", "the other person", "person with you", "person next to you", "another", "i heard")
    for d in dialogues:
        if d.label == "actionable":
            assert any(words in d.reply.lower() for words in others), d
            assert "?" in d.reply or "just say yes" in d.reply or "Tell me" in d.reply, d


def test_realism_items_are_balanced_and_do_not_contradict_the_dialogues(engine: PlaybookTextEngine) -> None:
    items = list(list_realism_items())
    counts = Counter(item.realistic for item in items)
    assert len(items) >= 200
    assert counts[False] >= 60
    assert {item.scenario for item in items if item.realistic} == set(SCENARIOS)
    for item in items:
        assert check_speakable(item.primary)
        assert check_speakable(item.third_party)
        assert (engine.find_dialogue(item.primary, item.third_party) is not None) == item.realistic, item
    assert len({(item.primary, item.third_party) for item in items}) == len(items)


def test_an_actionable_line_without_a_kind_is_invalid() -> None:
    with pytest.raises(ValueError, match="needs a kind and a reply"):
        PlaybookLine.model_validate({"line": "No.", "for": ["chat"], "label": "actionable", "ambiguity": 1})


def test_an_ambiguous_line_without_a_one_speaker_reply_is_invalid() -> None:
    with pytest.raises(ValueError, match="needs a one_speaker_reply"):
        PlaybookLine.model_validate({"line": "No.", "for": ["chat"], "label": "ignorable", "ambiguity": 4})


def test_an_unrealistic_item_names_its_fault() -> None:
    with pytest.raises(ValueError, match="names its fault"):
        RealismItem(
            primary="Play it.",
            third_party="Blue.",
            scenario="alignment",
            timing=Timing.AFTER_COMPLETION,
            realistic=False,
        )


# ---- writing ----------------------------------------------------------------------------------------------------


def test_written_texts_are_dialogues_of_the_request_scenario_and_timing(
    engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]
) -> None:
    true = {(d.query, d.scenario, d.timing.value, d.primary, d.third_party) for d in dialogues}
    for query in load_starter_queries()[::25]:
        for scenario in SCENARIOS:
            for timing in Timing:
                spoken = query.text.lower().rstrip(".?!")
                reply = ask(
                    engine, text_tasks.WRITE_INTERRUPTION, request=spoken, scenario=scenario, timing=timing.value
                )
                if isinstance(reply, RowFault):
                    assert reply.reason == "outside_coverage"
                    assert scenario == "recall_assistance"
                else:
                    assert reply.value is not None
                    found = (reply.value["primary"], reply.value["third_party"])
                    assert (query.text, scenario, timing.value, *found) in true


def test_seeds_vary_the_line_and_give_both_labels_alike(engine: PlaybookTextEngine) -> None:
    query = load_starter_queries()[0].text
    labels: Counter[str] = Counter()
    lines = set()
    for seed in range(400):
        reply = ask(
            engine,
            text_tasks.WRITE_INTERRUPTION,
            seed=seed,
            request=query,
            scenario="modification",
            timing="after_completion",
        )
        assert isinstance(reply, TextReply)
        assert reply.value is not None
        dialogue = engine.find_dialogue(reply.value["primary"], reply.value["third_party"])
        assert dialogue is not None
        labels[dialogue.label] += 1
        lines.add(dialogue.third_party)
    assert labels["actionable"] == pytest.approx(200, abs=50)
    assert len(lines) >= 8


def test_the_same_request_gives_the_same_reply_in_another_engine_and_order(engine: PlaybookTextEngine) -> None:
    requests = [
        TextRequest(
            text_tasks.WRITE_INTERRUPTION.name,
            messages=(),
            seed=seed,
            variables={"request": query.text, "scenario": "social_engagement", "timing": "within_sentence"},
        )
        for seed, query in enumerate(load_starter_queries()[:40])
    ]
    told: list[int] = []
    first = engine.generate(requests, on_reply=lambda index, _: told.append(index))
    assert PlaybookTextEngine().generate(requests[::-1]) == first[::-1]
    assert told == list(range(40))


@pytest.mark.parametrize(
    ("request_text", "scenario", "timing"),
    [
        ("Set a timer for ninety nine years.", "endorsement", "after_completion"),
        ("Tell me a joke about penguins.", "recall_assistance", "after_completion"),
        ("Tell me a joke about penguins.", "my_own_scenario", "after_completion"),
        ("Tell me a joke about penguins.", "endorsement", "never"),
    ],
)
def test_what_is_not_covered_is_rejected(
    engine: PlaybookTextEngine, request_text: str, scenario: str, timing: str
) -> None:
    reply = ask(engine, text_tasks.WRITE_INTERRUPTION, request=request_text, scenario=scenario, timing=timing)
    assert isinstance(reply, RowFault)
    assert reply.reason == "outside_coverage"


# ---- looking up -------------------------------------------------------------------------------------------------


def test_every_dialogue_is_found_again_by_its_texts(
    engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]
) -> None:
    for d in dialogues:
        if d.timing is Timing.WITHIN_SENTENCE:
            continue  # the same texts as after completion
        found = engine.find_dialogue(d.primary, d.third_party)
        assert found is not None
        assert (found.query, found.label, found.kind, found.ambiguity) == (d.query, d.label, d.kind, d.ambiguity), d


def test_a_cut_request_is_found_with_its_truth(engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]) -> None:
    for d in dialogues[::97]:
        words = d.primary.split()
        cut = " ".join(words[: max(2, len(words) // 2)]).rstrip(".,?!") + "..."
        found = engine.find_dialogue(cut, d.third_party.lower())
        assert found is not None
        assert (found.label, found.kind, found.ambiguity) == (d.label, d.kind, d.ambiguity)


def test_the_start_of_a_request_is_no_match_unless_it_is_marked_as_cut(engine: PlaybookTextEngine) -> None:
    assert engine.find_dialogue("Turn off the bedroom...", "You read my mind.") is not None
    assert engine.find_dialogue("Turn off the bedroom", "You read my mind.") is None


def test_a_cut_request_with_several_answers_gets_a_label_but_no_reply(engine: PlaybookTextEngine) -> None:
    texts = {"primary": "What is the capital...", "third_party": "You read my mind."}
    certain = ask(engine, text_tasks.WRITE_REPLY, **texts, **{"class": "ignorable", "kind": ""})
    assert isinstance(certain, TextReply)
    assert certain.value == {"reply": "The capital of Austria is Vienna."}
    texts["primary"] = "How many..."
    label = ask(engine, text_tasks.LABEL_CLASS, YES_NO, **texts, **{"class": "actionable"})
    assert isinstance(label, TextReply)
    assert label.text == text_tasks.NO
    unsure = ask(engine, text_tasks.WRITE_REPLY, **texts, **{"class": "ignorable", "kind": ""})
    assert isinstance(unsure, RowFault)
    assert unsure.reason == "outside_coverage"


def test_scored_tasks_give_the_truth(engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]) -> None:
    letters = ("A", "B", "C", "D")
    for d in dialogues[::211]:
        is_actionable = ask_choice(engine, text_tasks.LABEL_CLASS, YES_NO, d, **{"class": "actionable"})
        assert (is_actionable == text_tasks.YES) == (d.label == "actionable")
        assert ask_choice(engine, text_tasks.SCORE_AMBIGUITY, SCORES, d) == str(d.ambiguity)
        assert ask_choice(engine, text_tasks.CHECK_REALISM, YES_NO, d) == text_tasks.YES
        if d.kind:
            letter = ask_choice(engine, text_tasks.LABEL_KIND, letters, d, **{"class": "actionable"})
            assert KIND_ORDER[letters.index(letter)] == d.kind


def test_written_replies_are_the_authored_ones(engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]) -> None:
    for d in dialogues[::211]:
        texts = {"primary": d.primary, "third_party": d.third_party}
        reply = ask(engine, text_tasks.WRITE_REPLY, **texts, **{"class": d.label, "kind": d.kind or ""})
        assert isinstance(reply, TextReply)
        assert reply.value == {"reply": d.reply}
        one = ask(engine, text_tasks.WRITE_ONE_SPEAKER_REPLY, **texts)
        assert isinstance(one, TextReply)
        assert one.value == {"reply": d.one_speaker_reply or d.heard_as_one}


def test_what_one_person_would_hardly_say_is_answered_as_that_persons_words(
    engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]
) -> None:
    others = ("someone with", "someone next", "the other person", "person with you", "another voice", "i heard")
    for d in dialogues[::5]:
        assert d.heard_as_one == d.one_speaker_reply or d.ambiguity < 4
        assert not any(words in d.heard_as_one.lower() for words in others), d
        assert check_speakable(d.heard_as_one), d
    texts = {"primary": "Ring the pizza place on the corner.", "third_party": "Better to try the noodle bar instead."}
    corrected = next(d for d in dialogues if d.primary == texts["primary"] and d.kind == "correction_disambiguation")
    assert corrected.ambiguity < 4
    assert corrected.heard_as_one.endswith("Calling the noodle bar.")


def test_a_request_alone_gets_its_own_answer(engine: PlaybookTextEngine) -> None:
    def answer(primary: str) -> object:
        reply = ask(engine, text_tasks.WRITE_ONE_SPEAKER_REPLY, primary=primary, third_party="")
        return reply.value if isinstance(reply, TextReply) else reply.reason

    assert answer("What is the capital of Austria?") == {"reply": "The capital of Austria is Vienna."}
    assert answer("What is the capital...") == {"reply": "The capital of Austria is Vienna."}
    assert answer("How many...") == {"reply": "I did not catch all of that. Could you say it again?"}
    assert answer("How many") == "outside_coverage"
    assert answer("Feed the dragon.") == "outside_coverage"


def test_realism_items_are_judged_by_their_truth(engine: PlaybookTextEngine) -> None:
    for item in list_realism_items():
        reply = ask(
            engine, text_tasks.CHECK_REALISM, YES_NO, primary=item.primary, third_party=item.third_party, scenario="x"
        )
        assert isinstance(reply, TextReply)
        assert reply.text == (text_tasks.YES if item.realistic else text_tasks.NO)


@pytest.mark.parametrize("task", text_tasks.TASKS[1:], ids=lambda task: task.name)
def test_an_unknown_exchange_is_rejected_by_every_task(engine: PlaybookTextEngine, task: text_tasks.TextTask) -> None:
    variables = {"primary": "Feed the dragon.", "third_party": "It is on fire.", "class": "actionable", "kind": ""}
    reply = ask(engine, task, YES_NO, **variables)
    assert isinstance(reply, RowFault)
    assert reply.reason == "outside_coverage"


def test_a_reply_under_the_wrong_class_is_rejected(
    engine: PlaybookTextEngine, dialogues: list[PlaybookDialogue]
) -> None:
    d = next(d for d in dialogues if d.label == "ignorable")
    reply = ask(
        engine,
        text_tasks.WRITE_REPLY,
        primary=d.primary,
        third_party=d.third_party,
        **{"class": "actionable", "kind": ""},
    )
    assert isinstance(reply, RowFault)
    assert reply.reason == "outside_coverage"


def test_unknown_tasks_and_missing_variables_are_row_faults(engine: PlaybookTextEngine) -> None:
    unknown = engine.generate([TextRequest("sing", messages=(), seed=0)])[0]
    bare = engine.generate([TextRequest(text_tasks.WRITE_INTERRUPTION.name, messages=(), seed=0)])[0]
    assert isinstance(unknown, RowFault)
    assert isinstance(bare, RowFault)
    assert {unknown.reason, bare.reason} == {"outside_coverage"}


def test_identity_names_the_data(engine: PlaybookTextEngine) -> None:
    assert engine.identity.revision == load_playbook_data().digest
    assert len(engine.identity.revision) == 64
    assert isinstance(engine, TextEngine)
