"""What differs between two descriptions of a stage, by field."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.description_changes import ABSENT, MOST_CHARACTERS, Change, list_changes
from bystander.schemas.identity import digest_json

DESCRIPTION: dict[str, Any] = {
    "stage": "write_replies",
    "version": 3,
    "build_seed": 17,
    "params": {"max_words": 40, "sampling": {"temperature": 0.7}, "languages": ["en", "zh"], "note": None},
    "files": [["policy.txt", "a" * 64]],
    "engines": {
        "writer": {"kind": "text", "name": "vllm", "model": "qwen", "revision": "r1", "settings": {"voices": "a,b"}}
    },
    "prompts": {"write_reply": "0123456789abcdef" * 4},
    "classes": [["actionable", ["correction", "goal"]], ["ignorable", []]],
    "pack": "b" * 64,
    "taxonomy": None,
    "exclusions": "",
}


def _set(description: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(description)
    target: Any = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "change", "sentence"),
    [
        (("version",), 4, Change("version", "3", "4"), "the stage's version: 3 -> 4"),
        (("build_seed",), 18, Change("build_seed", "17", "18"), "the build's seed: 17 -> 18"),
        (("params", "max_words"), 30, Change("params.max_words", "40", "30"), "params.max_words: 40 -> 30"),
        (
            ("params", "sampling", "temperature"),
            1.0,
            Change("params.sampling.temperature", "0.7", "1.0"),
            "params.sampling.temperature: 0.7 -> 1.0",
        ),
        (
            ("params", "languages"),
            ["en"],
            Change("params.languages", "en, zh", "en"),
            "params.languages: en, zh -> en",
        ),
        (("params", "note"), "x", Change("params.note", "none", "x"), "params.note: none -> x"),
        (("params", "new"), 1, Change("params.new", ABSENT, "1"), "params.new: absent -> 1"),
        (
            ("files",),
            [["policy.txt", "c" * 64], ["more.txt", "d" * 64]],
            Change("files.more.txt", ABSENT, "d" * 12),
            "the file more.txt came in",
        ),
        (
            ("engines", "writer", "settings", "voices"),
            "a,c",
            Change("engines.writer.settings.voices", "a,b", "a,c"),
            "engines.writer.settings.voices: a,b -> a,c",
        ),
        (
            ("engines", "judge"),
            {"kind": "text", "name": "fake", "model": "", "revision": "", "settings": {}},
            Change("engines.judge", ABSENT, "fake"),
            "engines.judge: absent -> fake",
        ),
        (
            ("prompts", "write_reply"),
            "f" * 64,
            Change("prompts.write_reply", "0123456789ab", "f" * 12),
            "the pack's texts for write_reply changed",
        ),
        (
            ("prompts",),
            {},
            Change("prompts.write_reply", "0123456789ab", ABSENT),
            "the pack's texts for write_reply went away",
        ),
        (
            ("classes",),
            [["actionable", ["correction"]], ["ignorable", []]],
            Change("classes.actionable", "correction, goal", "correction"),
            "the pack's class actionable: correction, goal -> correction",
        ),
        (
            ("classes",),
            [["ignorable", []], ["actionable", ["correction", "goal"]]],
            Change("classes", "actionable, ignorable", "ignorable, actionable"),
            "classes: actionable, ignorable -> ignorable, actionable",
        ),
        (("pack",), None, Change("pack", "b" * 12, "none"), "the pack changed"),
        (("taxonomy",), "e" * 64, Change("taxonomy", "none", "e" * 12), "the taxonomy changed"),
        (
            ("exclusions",),
            "e" * 64,
            Change("exclusions", '""', "e" * 12),
            "what the builds use that it must share nothing with changed",
        ),
    ],
)
def test_a_field_that_differs_is_named_with_its_values(
    path: tuple[Any, ...], value: Any, change: Change, sentence: str
) -> None:
    changes = list_changes(DESCRIPTION, _set(DESCRIPTION, path, value))
    assert change in changes
    assert change.sentence == sentence
    assert {c.field for c in changes} - {change.field} <= {"files.policy.txt"}  # that case changes two


@pytest.mark.parametrize(
    ("before", "after", "field", "sentence"),
    [
        (
            {"prompts": {"write_reply": {"template": "a" * 64, "answers": []}}},
            {"prompts": {"write_reply": {"template": "b" * 64, "answers": []}}},
            "prompts.write_reply.template",
            "the template of write_reply changed",
        ),
        (
            {"prompts": {"label_class": {"classes": {"defer": {"criterion": "a" * 64}}}}},
            {"prompts": {"label_class": {"classes": {"defer": {"criterion": "b" * 64}}}}},
            "prompts.label_class.classes.defer.criterion",
            "the criterion of class defer, which label_class shows, changed",
        ),
        (
            {"prompts": {"label_class": {"classes": {}}}},
            {"prompts": {"label_class": {"classes": {"defer": {"criterion": "b" * 64}}}}},
            "prompts.label_class.classes.defer",
            "class defer, which label_class shows, came in",
        ),
        (
            {"classes": [{"key": "act", "kinds": ["a"], "requires_mention": True}, {"key": "defer", "kinds": []}]},
            {"classes": [{"key": "act", "kinds": ["a"], "requires_mention": False}, {"key": "defer", "kinds": []}]},
            "classes.act.requires_mention",
            "the pack's class act.requires_mention: true -> false",
        ),
        (
            {"classes": [{"key": "act", "kinds": ["a"]}]},
            {"classes": [{"key": "act", "kinds": ["a"]}, {"key": "defer", "kinds": []}]},
            "classes.defer",
            'the pack\'s class defer: absent -> {"kinds": []}',
        ),
    ],
)
def test_parts_of_prompts_and_classes_are_told_apart(
    before: dict[str, Any], after: dict[str, Any], field: str, sentence: str
) -> None:
    (change,) = list_changes(before, after)
    assert (change.field, change.sentence) == (field, sentence)


def test_changes_come_in_the_order_of_the_fields_of_a_description() -> None:
    after = {**DESCRIPTION, "version": 4, "build_seed": 1, "pack": "c" * 64, "zeal": 1, "engines": {}}
    assert [change.field for change in list_changes(DESCRIPTION, after)] == [
        "version",
        "build_seed",
        "engines.writer",
        "pack",
        "zeal",
    ]


def test_a_long_text_is_cut_to_what_surrounds_its_first_difference() -> None:
    before, after = "word " * 40 + "hot " + "tail " * 40, "word " * 40 + "cold " + "tail " * 40
    (change,) = list_changes({"params": {"text": before}}, {"params": {"text": after}})
    assert change.before.startswith("…d word word hot tail")
    assert change.before.endswith("…")
    assert change.after.startswith("…d word word cold tail")
    assert max(len(change.before), len(change.after)) <= MOST_CHARACTERS


def test_digests_that_begin_alike_are_told_apart() -> None:
    (change,) = list_changes({"pack": "a" * 64}, {"pack": "a" * 63 + "b"})
    assert change.before != change.after


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=90),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc. 1", max_size=5), inner, max_size=3),
    max_leaves=8,
)
DESCRIPTIONS = st.dictionaries(st.sampled_from([*DESCRIPTION, "other"]), JSON, max_size=5)


@given(DESCRIPTIONS, DESCRIPTIONS)
def test_there_is_a_change_if_and_only_if_the_digests_differ_and_swapping_swaps_it(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    changes = list_changes(before, after)
    assert bool(changes) == (digest_json(before) != digest_json(after))
    assert all(change.before != change.after for change in changes)
    assert all("\n" not in change.sentence for change in changes)
    swapped = [Change(change.field, change.after, change.before) for change in list_changes(after, before)]
    assert list(changes) == swapped


@given(DESCRIPTIONS)
def test_what_a_manifest_gives_back_is_the_same(description: dict[str, Any]) -> None:
    assert list_changes(description, json.loads(json.dumps(description))) == ()
