"""`check_pack`: every fault at once, each with its file, line and what to do."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
import yaml

from bystander.prompts.find_packs import list_built_in_packs
from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.errors import PackError
from bystander.tasks.check_pack import check_pack

REFERENCE = Path(str(resources.files("bystander.prompts"))) / "packs" / "reference"


@pytest.fixture
def folder(tmp_path):
    return write_new_pack("copy", "reference", tmp_path / "pack")


@pytest.fixture
def mine(tmp_path):
    """Return a fresh skeleton: unlike the reference pack it has examples in its manifest."""
    return write_new_pack("mine", folder=tmp_path / "mine")


def edit(folder, old, new, file="pack.yaml", count=1):
    path = folder / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), "utf-8")


def change(folder, alter):
    path = folder / "pack.yaml"
    data = yaml.safe_load(path.read_text("utf-8"))
    alter(data)
    path.write_text(json.dumps(data, indent=1), "utf-8")


def list_faults(folder, level=None):
    return [str(fault) for fault in check_pack(str(folder)).faults if level in (None, fault.level)]


def find_line(folder, text, file="pack.yaml"):
    lines = (folder / file).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize("name", list_built_in_packs())
def test_the_packs_that_are_shipped_have_no_errors(name):
    report = check_pack(name)
    assert report.errors == []
    assert report.digest == load_pack(name).digest
    assert report.language.share == 1.0
    assert {task: item.reply_tokens for task, item in report.prompts.items()}["write_reply"] == 160


@pytest.mark.parametrize("name", list_built_in_packs())
def test_nor_any_warnings(name):
    assert check_pack(name).faults == ()


def test_the_longest_prompt_is_measured():
    report = check_pack("reference")
    assert report.prompts["label_class"].characters > 2000
    assert 0.2 < report.prompts["label_class"].tokens / report.prompts["label_class"].characters < 0.4


def test_all_faults_come_at_once_with_file_and_line(folder):
    edit(folder, "language: en", "language: en\ncolour: red\nlanguage: de")
    edit(folder, "mentions_third_party: false", "mentions_third_party: perhaps")
    edit(folder, "maxLength: 360", "minimum: 3", count=2)
    edit(folder, "variables: [primary, third_party, class]", "variables: [primary, third_party, class, mood]")
    edit(folder, "template: judge_strategy.j2", "template: ../judge_strategy.j2")
    edit(folder, "{{ primary }}", "{{ primary.upper() }}", "score_ambiguity.j2")
    edit(folder, "{{ third_party }}", "{{ third_party }}{% if %}", "label_kind.j2")
    faults = list_faults(folder)
    lines = {
        text: find_line(folder, text) for text in ("colour", "language: de", "perhaps", "minimum: 3", "mood", "../")
    }
    wanted = [
        f"pack.yaml:{lines['colour']}: colour: no such field",
        f"pack.yaml:{lines['language: de']}: language: occurs twice, first in line 6",
        f"pack.yaml:{lines['perhaps']}: classes.ignorable.mentions_third_party: must be true or false",
        f"pack.yaml:{lines['minimum: 3']}: tasks.write_reply.reply_schema.properties.reply: needs a maxLength",
        f"pack.yaml:{lines['mood']}: tasks.label_class.variables: mood is not given to this task",
        f"pack.yaml:{lines['../']}: tasks.judge_strategy.template: ../judge_strategy.j2: lies outside",
        f"score_ambiguity.j2:{find_line(folder, '.upper()', 'score_ambiguity.j2')}: a template may not call anything",
        f"label_kind.j2:{find_line(folder, '{% if %}', 'label_kind.j2')}: Expected an expression",
    ]
    for text in wanted:
        assert any(fault.startswith(text) for fault in faults), (text, faults)
    with pytest.raises(PackError) as caught:
        load_pack(str(folder))
    assert all(text in str(caught.value) for text in wanted)


def test_a_pack_without_a_readable_manifest(folder):
    (folder / "pack.yaml").write_text("- a\n", "utf-8")
    assert list_faults(folder) == [
        "pack.yaml:1: file: must be a mapping with the fields name, description, language, classes, tasks"
    ]
    (folder / "pack.yaml").unlink()
    assert list_faults(folder) == ["pack.yaml: cannot be read (No such file or directory)"]


def test_no_such_pack():
    with pytest.raises(PackError, match="neither a built-in pack"):
        check_pack("none/such")


class TestManifest:
    """The commonest mistakes, each told once, in plain words, with its line."""

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("description:", "descripton:", "descripton: no such field; did you mean description?"),
            ("language: en\n", "", "language: is missing"),
            ("language: en", "language: no", "language: must be a text, and YAML takes this word for true or false"),
            ("language: en", "language: English", "language: 'English' cannot be a language; use a code of two"),
            ("key: actionable", "key: act-2", "act-2.key: 'act-2' cannot be a key; use small letters and _ only"),
            (
                "variables: [primary, third_party, class]",
                "variables: primary, third_party, class",
                "tasks.label_class.variables: must be a list such as [primary, third_party, class]",
            ),
            ("answers: [A, B]", "answers: [yes, no]", "answers.0: must be a text, and YAML takes this word for true"),
            ("answers: [A, B]", "answers: [A]", "answers.1: is missing; two are needed"),
            ("mentions_third_party: false", "mentions_third_party: 3", "mentions_third_party: must be true or false"),
        ],
    )
    def test_what_is_said(self, folder, old, new, said):
        edit(folder, old, new)
        faults = [fault for fault in list_faults(folder, "error") if "is no class" not in fault]
        (fault,) = [fault for fault in faults if said in fault]
        if new:
            assert fault.startswith(f"pack.yaml:{find_line(folder, new)}: ")
        assert not [other for other in faults if other.endswith("description: is missing")]

    def test_a_mention_that_is_required_and_forbidden(self, mine):
        edit(mine, "mentions_third_party: true", "mentions_third_party: false")
        faults = list_faults(mine, "error")
        said = f"pack.yaml:{find_line(mine, 'requires_mention: true')}: classes.actionable.requires_mention: needs"
        assert any(fault.startswith(f"{said} mentions_third_party to be true") for fault in faults), faults
        assert not [fault for fault in faults if "is no class" in fault]

    def test_a_misspelt_variable_of_an_example(self, mine):
        edit(mine, "given: {class: actionable,", "given: {clas: actionable,")
        assert any("given.clas: is no variable of this task" in fault for fault in list_faults(mine, "error"))


class TestUnseenCharacters:
    @pytest.mark.parametrize(
        ("sign", "said"),
        [
            ("\u200b", "holds U+200B (ZERO WIDTH SPACE), which nobody can see: take it out"),
            ("\u202e", "holds U+202E (RIGHT-TO-LEFT OVERRIDE), which nobody can see: take it out"),
            ("\x00", "holds U+0000 (a control character), which nobody can see: take it out"),
        ],
    )
    def test_in_texts_and_templates(self, folder, sign, said):
        change(folder, lambda data: data["classes"][0].update(policy=data["classes"][0]["policy"] + sign))
        edit(folder, "{{ primary }}", f"{{{{ primary }}}}{sign}", "score_ambiguity.j2")
        faults = list_faults(folder, "error")
        line = find_line(folder, '"policy"')
        assert f"pack.yaml:{line}: classes.actionable.policy: {said}" in faults
        line = find_line(folder, "{{ primary }}", "score_ambiguity.j2")
        assert f"score_ambiguity.j2:{line}: {said}" in faults

    def test_letters_and_marks_of_other_languages_are_seen(self, folder):
        change(folder, lambda data: data["classes"][0].update(policy=data["classes"][0]["policy"] + " – „naïve“ 日本"))
        assert list_faults(folder, "error") == []


class TestClasses:
    def check(self, folder, alter, *parts, level="error"):
        change(folder, alter)
        faults = list_faults(folder, level)
        for part in parts:
            assert any(part in fault for fault in faults), (part, faults)

    @pytest.mark.parametrize("text", ["", "  \n ", "\u00a0\u200b\u2060"])
    def test_without_criteria_policy_or_definition(self, folder, text):
        def alter(data):
            data["classes"][0].update(criteria=text, policy=text)
            data["classes"][0]["kinds"][1]["definition"] = text

        self.check(
            folder,
            alter,
            "classes.actionable.criteria: is empty",
            "classes.actionable.policy: is empty",
            "classes.actionable.kinds.feasibility_constraint.definition: is empty",
        )

    def test_that_nothing_tells_apart(self, folder):
        def alter(data):
            first, second = data["classes"]
            second["criteria"] = f" {first['criteria'].upper()}\n"

        self.check(folder, alter, "classes.ignorable.criteria: are those of actionable word for word")

    def test_one_that_is_faulty_counts_as_a_class(self, folder):
        change(folder, lambda data: data["classes"][0].update(mentions_third_party="perhaps"))
        assert [fault for fault in list_faults(folder) if "at least 2" in fault] == []
        change(folder, lambda data: data["classes"].pop())
        assert any("classes: has 1 of at least 2 classes" in fault for fault in list_faults(folder))

    def test_of_one_policy(self, folder):
        self.check(
            folder,
            lambda data: data["classes"][1].update(policy=data["classes"][0]["policy"]),
            "classes.ignorable.policy: is that of actionable word for word",
            level="warning",
        )

    def test_openings_against_the_mention_flags(self, folder):
        def alter(data):
            data["classes"][1]["reply_openings"] = ["I heard someone say "]

        self.check(folder, alter, "classes.ignorable.reply_openings.0: says that another person spoke, but mentions")
        self.check(
            folder,
            lambda data: data["classes"][0].update(reply_openings=["Well, "]),
            "classes.actionable.reply_openings: none says that another person spoke",
            level="warning",
        )

    def test_policies_against_the_mention_flags(self, folder):
        def swap(data):
            first, second = data["classes"]
            first["policy"], second["policy"] = second["policy"], first["policy"]

        self.check(
            folder,
            swap,
            "classes.actionable.policy: says to pass over the remark, but requires_mention",
            "classes.ignorable.policy: says to mention the other person, but mentions_third_party is false",
            level="warning",
        )

    def test_openings_need_not_be_speakable(self, folder):
        change(folder, lambda data: data["classes"][0].update(reply_openings=["Someone near you *says*: "]))
        assert not [fault for fault in list_faults(folder) if "spoken" in fault]

    def test_marks_that_no_reply_can_end_with(self, folder):
        self.check(
            folder,
            lambda data: data["classes"][0].update(reply_ends_with=["?", ";"]),
            "classes.actionable.reply_ends_with: ';' is none of . ! ?",
            level="warning",
        )


class TestWhatPromptsShow:
    @pytest.mark.parametrize(
        ("file", "shown", "instead", "part"),
        [
            ("label_class.j2", "class.criteria", "class.description", "label_class.j2: never shows class.criteria"),
            ("label_class.j2", "{{ class.criteria }}", "{{ class.key }}", "a change of it would change no prompt"),
            ("judge_strategy.j2", "class.policy", "class.criteria", "judge_strategy.j2: never shows class.policy"),
        ],
    )
    def test_the_class(self, mine, file, shown, instead, part):
        edit(mine, shown, instead, file)
        assert any(part in fault for fault in list_faults(mine))

    @pytest.mark.parametrize(
        ("task", "variable", "line"),
        [
            ("label_class", "class", "A: {{ class.criteria }} B: anything else."),
            ("write_interruption", "request", "{{ request }}"),
            ("judge_strategy", "answer", "Answer: {{ answer | tojson }}"),
        ],
    )
    def test_variables_that_a_task_is_about(self, mine, task, variable, line):
        change(mine, lambda data: data["tasks"][task]["variables"].remove(variable))
        edit(mine, line, "Well?", f"{task}.j2")
        faults = list_faults(mine, "error")
        assert any(f"tasks.{task}.variables: the prompt never shows {variable}" in fault for fault in faults)

    def test_a_template_that_fails_for_some_class_only(self, mine):
        edit(
            mine,
            "User: {{ primary }}",
            "{% if class.key == 'ignorable' %}{{ class.mood }}{% endif %}{{ primary }}",
            "write_reply.j2",
        )
        (fault,) = [fault for fault in list_faults(mine, "error") if fault.startswith("write_reply.j2:15: cannot be")]
        assert "class has no field mood; there are key, criteria, policy, " in fault
        assert fault.endswith("(for class ignorable and 1 more cases)") or fault.endswith("(for class ignorable)")

    def test_a_template_that_fails_for_some_scenario_only(self, mine):
        edit(
            mine, "{{ request }}", "{{ request if scenario.key != 'veto_with_justification' }}", "write_interruption.j2"
        )
        (fault,) = list_faults(mine, "error")
        assert "scenario veto_with_justification" in fault

    def test_length(self, mine):
        edit(mine, "=== user", "Mind this. " * 700 + "\n=== user", "label_class.j2")
        (warning,) = list_faults(mine)
        assert "label_class.j2: the longest prompt has 8" in warning
        assert "more than a context of 2048" in warning
        edit(mine, "=== user", "Mind this. " * 1300 + "\n=== user", "label_class.j2")
        assert any(
            "label_class.j2: renders more than 20000 characters" in fault for fault in list_faults(mine, "error")
        )


class TestExamples:
    def check(self, mine, old, new, part, level="error"):
        edit(mine, old, new)
        faults = list_faults(mine, level)
        assert any(part in fault for fault in faults), faults

    @pytest.mark.parametrize(
        ("reply", "part"),
        [
            ("{reply: 7}", "examples.0.reply.reply: does not fit the task's schema: 7 is not of type 'string'"),
            ("{answer: Yes.}", "examples.0.reply: does not fit the task's schema"),
            ("{reply: 'Should I wake you up earlier?'}", "breaks the rules of class actionable"),
            ("{reply: 'Someone near you says no.'}", "does not end with one of ?, as class actionable has it"),
            ("{reply: 'I think somebody said six. Shall I?'}", "begins with none of the reply_openings of class"),
            ("{reply: 'Someone near you made an actionable remark. Shall I?'}", "(reply_leaks_label)"),
            ("{reply: 'Someone near you says **six**. Shall I?'}", "(reply_has_markup)"),
            ("{reply: 'Someone near you says six, but I cannot help with that. Okay?'}", "(reply_refuses)"),
        ],
    )
    def test_replies_that_break_schema_or_rules(self, mine, reply, part):
        old = '{reply: "I heard someone say that your train leaves at six. Should I wake you up earlier?"}'
        line = find_line(mine, old)
        edit(mine, old, reply)
        fault = next(fault for fault in list_faults(mine, "error") if part in fault)
        assert fault.startswith(f"pack.yaml:{line}: tasks.write_reply.examples.0.reply")

    def test_a_reply_that_mentions_what_it_must_not(self, mine):
        self.check(mine, "Sure, two tickets.", "Sure, and I will feed the cat.", "cat, feed in the reply")

    def test_a_second_person_where_there_is_one(self, mine):
        self.check(mine, "All right, I will wake", "Someone said six, I will wake", "(reply_mentions_speaker)")

    @pytest.mark.parametrize(
        ("given", "part"),
        [
            ("class: pushy,", "given.class: 'pushy' is no class; there are actionable, ignorable"),
            ("class: actionable, mood: good,", "given.mood: is no variable of this task"),
        ],
    )
    def test_what_is_given(self, mine, given, part):
        self.check(mine, "class: actionable,", given, part)

    def test_a_reply_whose_class_is_not_named(self, mine):
        self.check(mine, "class: actionable,", "", "names no class", "warning")

    def test_characters_that_cannot_be_spoken(self, mine):
        self.check(
            mine, "Wake me up at seven.", "Wake me up @ seven.", "given.primary: '@' (character 12) cannot be spoken"
        )

    def test_a_task_of_options_has_no_replies_to_show(self, mine):
        change(mine, lambda data: data["tasks"]["label_class"].update(examples=[{"reply": {"a": 1}}]))
        assert any("tasks.label_class.examples.0: this task is scored by options" in f for f in list_faults(mine))

    def test_examples_that_no_template_shows(self, mine):
        edit(mine, "variables: [primary, third_party, examples]", "variables: [primary, third_party]")
        assert any("examples are not shown: declare the variable examples" in f for f in list_faults(mine, "warning"))

    @pytest.mark.parametrize(
        ("reply", "given", "part"),
        [
            ({"primary": "Play [jazz].", "third_party": "No, rock."}, {}, "reply.primary: '[' (character 6) cannot be"),
            ({"primary": "Play jazz.", "third_party": "Sure, playing the jazz."}, {}, "(speaks_as_assistant)"),
            ({"primary": "Play jazz.", "third_party": "No, rock!"}, {"scenario": "justification"}, "(wrong_ending)"),
            (
                {"primary": "Play jazz.", "third_party": "No."},
                {"scenario": "nonsense"},
                "is no scenario of the taxonomy",
            ),
        ],
    )
    def test_written_interruptions(self, mine, reply, given, part):
        def alter(data):
            data["tasks"]["write_interruption"].update(examples=[{"given": given, "reply": reply}])

        change(mine, alter)
        assert any(part in fault for fault in list_faults(mine, "error")), list_faults(mine)


class TestShots:
    """Examples that stand in a template as `=== assistant` sections."""

    @pytest.mark.parametrize(
        ("file", "old", "new", "part"),
        [
            ("write_reply.j2", '{"reply": "Okay, ten', '{"reply: "Okay, ten', "is no JSON, as the reply has to be"),
            ("write_reply.j2", '{"reply": "Okay, ten', '{"answer": "Okay, ten', "does not fit the task's reply_schema"),
            ("write_reply.j2", "Okay, ten minutes", "Someone likes ten minutes", "breaks the rules of class ignorable"),
            ("judge_helpfulness.j2", '"score": 5}', '"score": 9}', "9 is not one of [1, 2, 3, 4, 5]"),
            ("label_kind.j2", "\nD\n", "\nF\n", "the example 'F' is none of the task's answers, A, B, C, D"),
            ("check_realism.j2", "=== assistant\n", "=== assistant\nYes, ", "is none of the task's answers, A, B"),
            ("score_ambiguity.j2", '"5"],', '"6"],', "the example '6' is none of the task's answers, 1, 2, 3, 4, 5"),
        ],
    )
    def test_those_that_teach_what_would_be_rejected(self, folder, file, old, new, part):
        edit(folder, old, new, file)
        (fault,) = [fault for fault in list_faults(folder, "error") if part in fault][:1]
        assert fault.startswith(file)

    def test_their_line_is_named(self, folder):
        edit(folder, "starting now.", "starting now, said someone.", "write_reply.j2")
        line = find_line(folder, "said someone", "write_reply.j2")
        (fault,) = list_faults(folder, "error")
        assert fault.startswith(f"write_reply.j2:{line}: the example")


class TestLanguage:
    def test_one_that_no_build_speaks(self, mine):
        edit(mine, "language: en", "language: de")
        (error,) = list_faults(mine, "error")
        line = find_line(mine, "language: de")
        assert error == f"pack.yaml:{line}: language: no build can speak 'de'; there are rules for en"
        assert list_faults(mine, "warning") == []

    def test_a_text_in_another(self, mine):
        german = (
            "Die Bemerkung hilft bei der Bitte oder ändert, wie sie ausgeführt werden soll, zum Beispiel mit Namen."
        )
        change(mine, lambda data: data["classes"][0].update(criteria=german))
        (warning,) = list_faults(mine)
        assert "classes.actionable.criteria: reads like 'de', not like 'en'" in warning
        share = check_pack(str(mine)).language.share
        assert 0.9 < share < 1
