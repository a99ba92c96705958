"""Which fields of a class decide a prompt."""

from __future__ import annotations

import pytest

from bystander.prompts.class_fields import describe_class_fields, find_class_fields
from bystander.schemas.packs import PackClass

ALL = frozenset(PackClass.model_fields) - {"share"}


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        ("{{ primary }}", set()),
        ("{{ class.policy }}", {"policy"}),
        ("{% if class.key == 'a' %}{{ class['criteria'] }}{% endif %}", {"key", "criteria"}),
        ("{% for kind in class.kinds %}{{ kind.definition }}{% endfor %}", {"kinds"}),
        ("{{ class.share }}", {"share"}),
        ("{{ class | tojson }}", ALL),
        ("{% set it = class %}{{ it.policy }}", ALL),
        ("{{ class[primary] }}", ALL),
        ("{{ class.model_fields_set }}", ALL),
        ("{{ class.policy }}{{ class.share }}{{ class | length }}", {*ALL, "share"}),
    ],
)
def test_fields_that_a_template_can_read(template: str, fields: set[str]) -> None:
    assert find_class_fields(template) == fields


def test_only_these_fields_are_described() -> None:
    def describe(**fields: str) -> dict[str, dict[str, str]]:
        known = {"key": "act", "criteria": "c", "policy": "p", **fields}
        item = PackClass.model_validate({**known, "mentions_third_party": True})
        return describe_class_fields([item], frozenset({"policy"}))

    assert describe() == describe(criteria="other")
    assert describe() != describe(policy="other")
    assert [*describe()["act"]] == ["policy"]
