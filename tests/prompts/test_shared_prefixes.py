"""The constant part of every prompt comes first, so that model servers compute it once.

The rule: a row's own texts stand in the last message alone, and in it as late as the question allows. Everything before
depends at most on the row's class or scenario, and requests are sent ordered by their prompts. A question may follow
the row's texts where small models answer better so; it is short.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bystander.schemas.engines import Message

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from shared_prefixes import ROWS, flatten, list_prompts, measure_common, measure_prefixes

PROMPTS = list(list_prompts())
LONGEST_REST = 220
"""Characters of a prompt that may stand behind its shared beginning, the row's own texts left out."""


@pytest.mark.parametrize("prompt", PROMPTS, ids=[f"{pack.name}-{task}-{group}" for pack, task, group, _, _ in PROMPTS])
def test_what_rows_share_comes_before_what_they_do_not(prompt):
    pack, task, _, own, _ = prompt
    first, second = (pack.messages(task, {**row, **own}) for row in ROWS)
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
    # What two rows have in common behind their first difference is what a better order could have put before it.
    shared = measure_common(flatten(first), flatten(second))
    rest = [flatten(messages)[shared:] for messages in (first, second)]
    behind = measure_common(rest[0][::-1], rest[1][::-1])
    assert behind <= LONGEST_REST


def test_shares_are_those_of_the_texts():
    assert flatten((Message("system", "a"), Message("user", "b"))) == "<system>a\n<user>b\n"
    assert measure_common("abcd", "abxd") == 2
    assert measure_common("ab", "abc") == 2


def test_most_of_every_prompt_is_computed_once():
    """Nine tenths of the characters of a prompt, taken over all tasks; two thirds of the shortest."""
    found = list(measure_prefixes())
    assert sum(one.in_group for one in found) / sum(one.characters for one in found) > 0.9
    assert min(one.in_group / one.characters for one in found) > 0.6
    assert all(one.in_all <= one.in_group <= one.characters for one in found)
