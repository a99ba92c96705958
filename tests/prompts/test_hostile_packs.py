"""Packs from strangers: what would escape, hang or fill the memory is refused, soon and in words."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from importlib import resources
from pathlib import Path

import pytest
import yaml

from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from bystander.prompts.pack_yaml import read_yaml
from bystander.prompts.pattern_cost import find_pattern_fault
from bystander.prompts.render import compile_template, render_messages, try_compile
from bystander.prompts.reply_schemas import find_schema_faults
from bystander.prompts.template_work import MAX_PROMPT_CHARACTERS
from bystander.schemas.errors import PackError
from bystander.schemas.packs import PackClass, PackKind
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_tasks import JUDGE_STRATEGY, WRITE_REPLY

REFERENCE = Path(str(resources.files("bystander.prompts"))) / "packs" / "reference"
FULL = 65_000
"""Characters of a template that fills the largest file."""
BOUND_S = 20
"""Generous for a loaded machine: each takes well under a second on a quiet one."""
BOUND_BYTES = 100_000_000


@pytest.fixture
def folder(tmp_path):
    return write_new_pack("copy", "reference", tmp_path / "pack")


@pytest.fixture
def bounded():
    """Hold a test to its bounds of time and of memory that Python allocates."""
    tracemalloc.start()
    begun = time.monotonic()
    yield
    taken, peak = time.monotonic() - begun, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < BOUND_S
    assert peak < BOUND_BYTES


def render(text, **variables):
    template = compile_template(f"=== user\n{text}", frozenset(variables), "t.j2")
    return render_messages(template, variables, "t.j2")[0].content


def refuse(text, **variables):
    with pytest.raises(PackError) as caught:
        render(text, **variables)
    return str(caught.value)


class TestEscapes:
    @pytest.mark.parametrize(
        "text",
        [
            "{{ ''.__class__ }}",
            "{{ item.__class__.__init__.__globals__ }}",
            "{{ item['__class__'] }}",
            "{{ item['__cla' ~ 'ss__'] }}",
            "{{ item|attr('__class__') }}",
            "{{ [item]|map('attr', '__class__')|list }}",
            "{{ [item]|join(attribute='__class__') }}",
            "{{ '{0.__class__}'.format(item) }}",
            "{{ '%s' % item }}",
            "{{ '%s'|format(item) }}",
            "{{ item.upper }}",
            "{{ item.upper() }}",
            "{{ {'a': 1}.keys }}",
            "{{ self }}",
            "{{ self._TemplateReference__context }}",
            "{{ super() }}",
            "{{ caller() }}",
            "{{ varargs }}",
            "{{ cycler.__init__ }}",
            "{{ range(9) }}",
            "{{ namespace(a=1) }}",
            "{{ lipsum() }}",
            "{% for x in [1] %}{{ loop }}{% endfor %}",
            "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
            "{% for x in [1] %}{{ loop['cycle'] }}{% endfor %}",
            "{% for x in [1] %}{{ loop|tojson }}{% endfor %}",
            "{% for x in [1] %}{% for y in loop %}{% endfor %}{% endfor %}",
            "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
            "{% macro m() %}x{% endmacro %}{{ m() }}",
            "{% call item() %}{% endcall %}",
            "{% set x = item %}",
            "{% set x %}y{% endset %}",
            "{% with x = item %}{% endwith %}",
            "{% block b %}{% endblock %}",
            "{% filter upper %}x{% endfilter %}",
            "{% autoescape true %}{% endautoescape %}",
            "{% include '/etc/hostname' %}",
            "{% include ['a'] ignore missing %}",
            "{% import 'a' as b %}",
            "{% from 'a' import b %}",
            "{% extends 'a' %}",
            "{{ item|replace(*['a', 'b']) }}",
            "{{ item|safe }}",
            "{{ item is sameas item }}",
            "{{ item is callable }}",
            "{{ [item] }}",
            "{{ none }}",
        ],
    )
    def test_they_are_refused(self, text, bounded):
        assert refuse(text, item="hello").startswith("t.j2")

    def test_objects_have_their_fields_and_nothing_else(self):
        item = PackClass(key="a", criteria="c", policy="p", mentions_third_party=True)
        assert render("{{ item.key }} {{ item['policy'] }}", item=item) == "a p"
        for name in ("model_fields", "model_dump", "copy", "__class__", "model_config"):
            assert "cannot be rendered" in refuse(f"{{{{ item.{name} }}}}", item=item)

    def test_what_fields_there_are_is_said(self):
        item = PackClass(
            key="a", criteria="c", policy="p", mentions_third_party=True, kinds=(PackKind(key="k", definition="d"),)
        )
        scenario = load_taxonomy().scenarios[0]
        known = ", ".join(PackClass.model_fields)
        said = refuse("{{ item.critera }}", item=item)
        assert said == f"t.j2, line 2: cannot be rendered (class has no field critera; there are {known}, conduct)"
        for text, wanted in {
            "{{ item.kind }}": "scenario has no field kind; there are key, category, definition, examples, openings, "
            "ends_with",
            "{{ item.examples[0].reply }}": "an example has no field reply; there are primary, third_party, request",
            "{{ item.examples[99].primary }}": "a list has no item 99",
            "{{ item.key.length }}": "a text has no field length",
        }.items():
            assert f"({wanted})" in refuse(text, item=scenario)
        assert "(a kind has no field name; there are key, definition)" in refuse("{{ item.kinds[0].name }}", item=item)
        assert "(a mapping has no field c; there are a, b)" in refuse("{{ item.c }}", item={"a": 1, "b": 2})
        assert render("{{ item.c is defined }}", item={"a": 1}) == "False"

    def test_all_faults_of_a_template_come_with_their_lines(self):
        _, faults = try_compile(
            "=== user\n{{ a }}\n{{ b|attr('x') }}\n{% set c = 1 %}\n{{ a.b() }}\n{{ a * 2 }}", frozenset({"a"})
        )
        assert [line for line, _ in faults if line] == [3, 4, 5, 6, 3]
        assert [message for _, message in faults][-1] == "uses b, which is not declared among the task's variables"


class TestBombs:
    @pytest.mark.parametrize(
        "text",
        [
            "{{ item[:9]" + "|replace('p', 'pppppppppp')" * 40 + " }}",
            "{{ item|replace('', item)|replace('', item)|replace('', item) }}",
            "{{ " + "~".join(["item"] * 1200) + " }}",
            "{{ [" + "item," * 1200 + "]|join }}",
            "{{ [" + "item," * 1200 + "]|tojson }}",
            "{{ item|title|upper }}",
            "{{ item ~ item|length }}",
            "{% for x in item %}{% for y in item %}{% endfor %}{% endfor %}",
            "{% for x in item %}{% if x == 'no' %}{{ x }}{% endif %}{% endfor %}" * 60,
            "{% for x in item if x == 'no' %}{% endfor %}" * 60,
            "{% for x in item %}{{ item|upper|length }}{% endfor %}",
            "{{ item|replace('p', '') }}" * 300,
        ],
    )
    def test_work_and_texts_are_bounded(self, text, bounded):
        said = refuse(text, item="p" * MAX_PROMPT_CHARACTERS)
        assert any(part in said for part in ("does more work", "of more than 20000 characters", "renders more than"))

    @pytest.mark.parametrize(
        "text",
        [
            "{% for x in '" + "a" * 20_000 + "' %}{% for y in '" + "a" * 20_000 + "' %}{% endfor %}{% endfor %}",
            "{% set x = 'aa' %}" + "{% set x = x ~ x %}\n" * 60,
            "{% set x = 'aa' %}" + "{% set x = x + x %}\n" * 60,
            "{{ 'a' * 1000000000 }}",
            "{{ 9 ** 9 ** 9 ** 9 }}",
            "{{ '%1000000000d' % 1 }}",
            "{{ " + "9" * 60_000 + " }}",
            "{{ " + "9" * 4_000 + " }}",
            "{{ 0x" + "f" * 60_000 + " }}",
            "{{ 1e999 }}",
            "{{ 'abc'[::0] }}",
            "{{ " + "(" * 30_000 + "1" + ")" * 30_000 + " }}",
            "{{ " + "not " * 15_000 + "1 }}",
            "== A\n" * 12_000,
            "=" * 60_000 + "a",
            "== a" + " " * 60_000 + "b {{",
            "{{ " + "-" * 60_000 + "1 }}",
            "{{ " + "[" * 30_000 + "]" * 30_000 + " }}",
            "{{ 'a'" + ".b" * 30_000 + " }}",
            "{{ 'a'" + "|trim" * 12_000 + " }}",
            "{{ 'a'" + "|trim" * 200 + " }}",
            "{{ " + "+".join(["1"] * 30_000) + " }}",
            "{{ " + "<".join(["1"] * 30_000) + " }}",
            "{{ " + "1 if 1 else " * 5_000 + "1 }}",
            "{% if 1 %}" * 6_000,
            "{% if 1 %}" * 90 + "{% endif %}" * 90,
            "{% if 1 %}" + "{% elif 1 %}" * 5_000 + "{% endif %}",
            "{{ 1 }}" * 9_000,
            "{% for x in [] %}{% endfor %}" * 1_000,
            "{#" * 30_000,
            "{{" * 30_000,
            "{%-" * 20_000,
            "{% raw %}" + "{% endraw" * 6_000,
            " " * FULL,
            "\n" * FULL,
        ],
        ids=range(35),
    )
    def test_templates_that_fill_a_file(self, text, bounded):
        refuse(text)

    def test_what_a_prompt_needs_is_far_within_the_budget(self):
        shots = "{% for a, b in [" + '["x", "y"],' * 100 + "] %}{{ a|upper }}{{ b }}{% endfor %}"
        assert render(shots) == "Xy" * 100
        assert (
            len(render("{% for x in item %}{% if x != ' ' %}{{ x }}{% endif %}{% endfor %}", item="a b" * 1000)) == 2000
        )

    @pytest.mark.parametrize(
        ("text", "rendered"),
        [
            ("{{ item ~ '-' ~ 1 }}", "hello-1"),
            ("{{ [1, 'a', 2.5]|join(', ') }}", "1, a, 2.5"),
            ("{{ [{'k': 'a'}, {'k': 'b'}]|join('/', attribute='k') }}", "a/b"),
            ("{{ item|replace('l', 'L', 1)|capitalize }}", "Hello"),
            ("{{ item|title|trim('H') }}", "ello"),
            ("{{ [item, 'it\\'s'] | tojson }}", '["hello", "it\'s"]'),
            ("{{ item[1:3] }}{{ item[0] }}{{ item|first }}{{ item|last }}{{ item|length + 1 }}", "elhho6"),
            (
                "{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}{{ x }}{{ '' if loop.last else ',' }}{% endfor %}",
                "11,23",
            ),
            ("{% for k in {'a': 1} %}{{ k }}{% else %}none{% endfor %}", "a"),
            ("{{ 'yes' if item is string and 'ell' in item else 'no' }}", "yes"),
        ],
    )
    def test_what_templates_may_do(self, text, rendered):
        text = text if "item" in text else text + "{{ item[:0] }}"
        assert render(text, item="hello") == rendered


class TestFiles:
    def check(self, folder, part):
        with pytest.raises(PackError) as caught:
            load_pack(str(folder))
        assert part in str(caught.value)

    def name_template(self, folder, name):
        path = folder / "pack.yaml"
        data = yaml.safe_load(path.read_text("utf-8"))
        data["tasks"]["label_class"]["template"] = name
        path.write_text(json.dumps(data), "utf-8")

    @pytest.mark.parametrize(
        "name", ["../pack/../../etc/hostname", "/etc/hostname", "/proc/self/environ", "..", "sub/../../x.j2"]
    )
    def test_paths_that_lead_outside(self, folder, name):
        self.name_template(folder, name)
        self.check(folder, "tasks.label_class.template")
        self.check(folder, "lies outside the pack's folder")

    @pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, ".", "sub"])
    def test_names_that_are_no_file(self, folder, name):
        (folder / "sub").mkdir()
        self.name_template(folder, name)
        self.check(folder, "tasks.label_class.template")

    def test_links_out_of_the_folder(self, folder, tmp_path):
        (tmp_path / "away").mkdir()
        (tmp_path / "away" / "label_class.j2").write_text("secret", "utf-8")
        (folder / "label_class.j2").unlink()
        (folder / "label_class.j2").symlink_to(tmp_path / "away" / "label_class.j2")
        self.check(folder, "label_class.j2: lies outside the pack's folder")
        (folder / "sub").symlink_to(tmp_path / "away")
        self.name_template(folder, "sub/label_class.j2")
        self.check(folder, "sub/label_class.j2: lies outside the pack's folder")

    def test_links_in_a_circle(self, folder):
        for name, other in (("label_class.j2", "b.j2"), ("b.j2", "label_class.j2")):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(folder / other)
        self.check(folder, "label_class.j2: cannot be read")

    def test_a_link_within_the_folder_and_a_linked_folder_are_fine(self, folder, tmp_path):
        digest = load_pack(str(folder)).digest
        (folder / "label_class.j2").rename(folder / "real.j2")
        (folder / "label_class.j2").symlink_to("real.j2")
        (tmp_path / "link").symlink_to(folder)
        assert load_pack(str(tmp_path / "link")).digest == digest

    @pytest.mark.parametrize("name", ["pack.yaml", "label_class.j2"])
    def test_a_pipe_is_not_waited_for(self, folder, name, bounded):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        self.check(folder, "it is no regular file")

    @pytest.mark.parametrize("name", ["pack.yaml", "label_class.j2"])
    def test_a_huge_file_is_not_read(self, folder, name, bounded):
        with (folder / name).open("wb") as stream:
            stream.truncate(100 * 2**20)
        self.check(folder, "is larger than 65536 bytes")


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("a: &x [1, 2]\nb: *x\n", "aliases are not allowed"),
            ("a: &x 1", "anchors (&x) are not allowed"),
            ("a: !!python/object/apply:os.system ['id']", "tags (tag:yaml.org,2002:python/object/apply:os.system)"),
            ("a: !!binary aGk=", "tags (tag:yaml.org,2002:binary)"),
            ("a: !mine x", "tags (!mine)"),
            ("<<: {a: 1}", "'<<' is no text"),
            ("yes: 1", "'yes' is no text"),
            ("1: 1", "'1' is no text"),
            ("? [a]\n: b", "a key must be a word"),
            ("a: .nan", "no number that JSON can say"),
            ("a: " + "9" * 60_000, "no number that JSON can say"),
            ("a: 0x" + "f" * 60_000, "beyond 2^53"),
            ("a: 1" + ":59" * 20_000, "beyond 2^53"),
            ("[" * FULL, "nest"),
            ("{a: " * (FULL // 4), "nested deeper than 24"),
            ("- " * (FULL // 2), "nested deeper than 24"),
            ("a: 1\n---\nb: 2", "is not valid YAML"),
            ("a: \x01", "is not valid YAML"),
        ],
        ids=range(18),
    )
    def test_what_is_refused(self, text, part, bounded):
        assert any(part in message for _, _, message in read_yaml(text).faults)

    def test_keys_that_occur_twice_are_named_with_both_lines(self):
        found = read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
        assert [(line, path) for line, path, _ in found.faults] == [(4, ("b", "c")), (5, ("a",))]
        assert "first in line 1" in found.faults[1][2]
        assert found.data == {"a": 1, "b": {"c": 1}}

    def test_plain_values(self):
        found = read_yaml("a: [1, 2.5, true, null, 2024-01-01, '3']\n")
        assert found.data == {"a": [1, 2.5, True, None, "2024-01-01", "3"]}
        assert found.find_line(("a", 3, "nothing")) == 1


def make_schema(**reply):
    properties = {"reply": {"type": "string", "maxLength": 300, **reply}}
    return {"type": "object", "properties": properties, "required": ["reply"]}


class TestReplySchemas:
    @pytest.mark.parametrize(
        "pattern",
        [
            "(a+)+$",
            "^(a|a)*$",
            "^(a|aa)+$",
            r"^(\w+\s?)*$",
            "^.*.*.*.*=$",
            "^(?:a?){30}a{30}$",
            "(x+x+)+y",
            "^(a{0,99}){0,99}$",
        ],
    )
    def test_patterns_that_hang(self, pattern, bounded):
        ((path, message),) = find_schema_faults(make_schema(pattern=pattern), WRITE_REPLY)
        assert path == ("properties", "reply", "pattern")
        assert "too many ways" in message

    @pytest.mark.parametrize(
        "pattern",
        [r"(a)\1", "(?=a)b", "(?<!a)b", "(", "(" * 900, "a" * 2_000, "a{99999999999}"],
    )
    def test_patterns_that_are_none_for_replies(self, pattern, bounded):
        assert find_pattern_fault(pattern, 300)

    @pytest.mark.parametrize(
        "pattern",
        [r"^(Yes|No), [A-Za-z0-9',.? ]{6,80}[.?!]$", r"^\s*\S[\s\S]*$", "[.?!]$", "^[A-Z].*$", "(?i)^okay\\b.{1,90}"],
    )
    def test_patterns_that_are_fine(self, pattern):
        assert find_schema_faults(make_schema(pattern=pattern), WRITE_REPLY) == []

    @pytest.mark.parametrize(
        ("part", "keyword"),
        [
            ({"$ref": "https://example.com/schema.json"}, "$ref"),
            ({"$ref": "file:///etc/passwd"}, "$ref"),
            ({"$ref": "#"}, "$ref"),
            ({"$dynamicRef": "#x"}, "$dynamicRef"),
            ({"$defs": {}}, "$defs"),
            ({"$id": "https://example.com"}, "$id"),
            ({"patternProperties": {"(a+)+$": {}}}, "patternProperties"),
            ({"uniqueItems": True}, "uniqueItems"),
            ({"anyOf": [{"not": {"items": {"$ref": "#"}}}]}, "$ref"),
        ],
    )
    def test_keywords_that_reach_out_or_run_on(self, part, keyword):
        ((path, message),) = find_schema_faults({**make_schema(), **part}, WRITE_REPLY)
        assert path[-1] == keyword
        assert "is not allowed" in message

    def test_depth(self, bounded):
        deep: dict = {"type": "string"}
        for _ in range(2_000):
            deep = {"items": deep}
        ((_, message),) = find_schema_faults({**make_schema(), "not": deep}, WRITE_REPLY)
        assert "nested deeper" in message

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {"reply": True}, "required": ["reply"]},
            {"type": "object", "properties": [], "required": ["reply"]},
            {"type": "object", "properties": {"reply": []}, "required": ["reply"]},
            {"type": "object", "required": 5},
            {"type": "array", "properties": {"reply": {"type": "string", "maxLength": 9}}, "required": ["reply"]},
            {},
        ],
    )
    def test_schemas_of_odd_shape_are_faults_and_no_crash(self, schema):
        assert find_schema_faults(schema, WRITE_REPLY)
        assert find_schema_faults(schema, JUDGE_STRATEGY)
