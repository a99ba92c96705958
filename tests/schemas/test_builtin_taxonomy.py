"""The built-in taxonomy: complete, speakable, and true to its own rules."""

import pytest

from bystander.schemas.taxonomy import load_taxonomy
from bystander.tasks.stages import text_rules as rules
from bystander.tasks.texts.spoken_text import is_speakable, split_words

SCENARIOS = {
    "agreement": ["endorsement", "alignment", "justification"],
    "assistance": [
        "recall_assistance",
        "elaborative_addition",
        "strategic_reframing",
        "constraint_reminder",
        "modification",
    ],
    "clarification": [
        "entity_specification",
        "detail_confirmation",
        "constraint_clarification",
        "goal_clarification",
    ],
    "disagreement": [
        "simple_correction_with_alternative",
        "veto_with_justification",
        "procedural_objection",
        "request_for_deferment",
    ],
    "floor_taking": ["evaluative_commentary", "anecdotal_association", "knowledge_display"],
    "tangentialization": ["action_invalidation", "answer_preemption", "expedited_execution"],
    "topic_change": ["priority_alert", "task_coordination", "social_engagement", "spontaneous_inquiry"],
}
TAXONOMY = load_taxonomy()


def test_it_has_the_26_scenarios_in_7_categories():
    found: dict[str, list[str]] = {}
    for scenario in TAXONOMY.scenarios:
        found.setdefault(scenario.category, []).append(scenario.key)
    assert found == SCENARIOS


@pytest.mark.parametrize("scenario", TAXONOMY.scenarios, ids=lambda s: s.key)
class TestScenario:
    def test_examples_are_varied_and_speakable(self, scenario):
        assert len(scenario.examples) >= 3
        for example in scenario.examples:
            assert is_speakable(example.primary)
            assert is_speakable(example.third_party)
        starts = {split_words(example.primary)[0] for example in scenario.examples}
        assert len(starts) >= 2

    def test_examples_pass_the_rules_of_the_writing_stage(self, scenario):
        for example in scenario.examples:
            assert example.third_party.endswith(scenario.ends_with)
            assert not rules.speaks_as_assistant(example.third_party)
            assert not rules.refuses(example.third_party)
            assert not rules.leaks_labels(example.third_party, [scenario.key])
            assert not rules.repeats_itself(example.third_party)
            assert not rules.repeats_request(example.third_party, example.primary, scenario.openings)
            request = example.request or example.primary
            supplied = example.third_party if example.request else ""
            assert rules.keeps_meaning(request, example.primary, supplied)

    def test_openings_are_literal_beginnings(self, scenario):
        assert len(scenario.openings) >= 3
        for opening in scenario.openings:
            assert opening.endswith(" ")
            assert opening[0].isupper()
            assert is_speakable(opening)
        assert set(scenario.ends_with) <= {".", "!", "?"}
