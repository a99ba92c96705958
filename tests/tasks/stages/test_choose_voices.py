"""Voices: seeded, different, balanced, never an avoided pair."""

from collections import Counter
from dataclasses import replace

import pytest

from bystander.schemas.config import load_config
from bystander.schemas.engines import Voice
from bystander.schemas.errors import ConfigError
from bystander.schemas.exclusions import NoExclusions
from bystander.schemas.tpi import SCORED, VOICED
from bystander.schemas.tpi_params import ChooseVoices
from bystander.tasks.engines.kokoro_styles import load_styles
from bystander.tasks.stages.choose_voices import STAGE, check_voices
from scripted_engines import TonesInOrder, make_context
from tpi_rows import make_rows

NAMES = ("ann", "bob", "cat", "dan", "eve")


def choose(n_rows, names=NAMES, seed=1, rows=None, languages=None, taken=frozenset(), **params):
    voices = [Voice(name, (languages or {}).get(name, "en-us")) for name in names]
    table = make_rows(SCORED, rows or [{}] * n_rows)
    context = make_context(ChooseVoices(**params), seed, speech=TonesInOrder(voices=voices))
    return STAGE(table, replace(context, exclusions=NoExclusions(pairs=taken)))


def list_pairs(output):
    return list(
        zip(output.kept["primary_voice"].to_pylist(), output.kept["third_party_voice"].to_pylist(), strict=True)
    )


def test_writes_two_different_voices_a_row():
    output = choose(50)
    assert output.kept.schema == VOICED
    assert all(one != other for one, other in list_pairs(output))
    assert set(output.kept["n_speakers"].to_pylist()) == {2}
    assert output.kept["twin_id"].null_count == 50


def test_draws_every_pair_equally_often():
    counts = Counter(list_pairs(choose(4000)))
    assert len(counts) == 20
    assert all(140 < count < 260 for count in counts.values())  # 200 each; sd 14


def test_balances_both_roles_despite_avoided_pairs():
    avoided = (("ann", "bob"), ("cat", "ann"))
    pairs = list_pairs(choose(5000, avoid_pairs=avoided))
    assert not {frozenset(pair) for pair in pairs} & {frozenset(pair) for pair in avoided}
    for role in (0, 1):
        counts = Counter(pair[role] for pair in pairs)
        assert all(880 < counts[name] < 1120 for name in NAMES)  # 1000 each; sd 28


def test_depends_on_seed_and_id_alone():
    rows = [{"id": name} for name in "pqrstuvwxyz"]
    whole = dict(zip("pqrstuvwxyz", list_pairs(choose(0, rows=rows)), strict=True))
    turned = dict(zip("zyxwvutsrqp", list_pairs(choose(0, rows=rows[::-1])), strict=True))
    assert whole == turned
    assert whole != dict(zip("pqrstuvwxyz", list_pairs(choose(0, rows=rows, seed=2)), strict=True))


def test_uses_the_named_voices_only():
    pairs = list_pairs(choose(30, voices=("eve", "bob")))
    assert set(pairs) == {("eve", "bob"), ("bob", "eve")}


def test_a_voice_without_a_partner_is_never_drawn():
    avoided = (("eve", "ann"), ("eve", "bob"), ("cat", "eve"), ("dan", "eve"))
    assert not any("eve" in pair for pair in list_pairs(choose(200, avoid_pairs=avoided)))


def test_rejects_a_row_whose_language_nobody_speaks():
    languages = {"ann": "zh", "bob": "en", "cat": "en_GB", "dan": "fr"}
    output = choose(0, names=NAMES[:4], rows=[{"language": "en"}, {"language": "zh"}], languages=languages)
    assert set(list_pairs(output)[0]) == {"bob", "cat"}
    assert output.rejected["reject_reason"].to_pylist() == ["no_voices_for_language"]
    assert "'zh'" in output.rejected["reject_detail"][0].as_py()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"voices": ("ann", "zoe", "yan")}, "no voice yan, zoe; it has ann, bob, cat, dan, eve"),
        ({"avoid_pairs": (("ann", "zoe"),)}, "no voice zoe"),
        ({"voices": ("ann",)}, "1 voices leave no pair"),
        ({"voices": ("ann", "bob"), "avoid_pairs": (("bob", "ann"),)}, "2 voices leave no pair"),
    ],
)
def test_says_which_setting_is_wrong(params, message):
    with pytest.raises(ConfigError, match=message):
        choose(1, **params)


def test_an_engine_with_one_voice_is_not_enough():
    with pytest.raises(ConfigError, match="1 voices leave no pair"):
        choose(1, names=("ann",))


def test_takes_an_empty_table():
    assert (
        len(
            STAGE(
                make_rows(SCORED, []),
                make_context(ChooseVoices(), speech=TonesInOrder(voices=[Voice("a", "en"), Voice("b", "en")])),
            ).kept
        )
        == 0
    )


def test_every_language_of_a_build_needs_a_pair_of_voices():
    voices = [Voice("ann", "en"), Voice("bob", "en_GB"), Voice("cat", "zh"), Voice("dan", "zh")]
    check_voices(voices, ChooseVoices(), ["en", "zh-CN"])
    with pytest.raises(ConfigError, match=r"stages\.choose_voices: no two of 4 voices .* speak 'fr'"):
        check_voices(voices, ChooseVoices(), ["en", "fr"])
    with pytest.raises(ConfigError, match=r"no two of 4 voices .* speak 'zh'"):
        check_voices(voices, ChooseVoices(avoid_pairs=(("dan", "cat"),)), ["en", "zh"])


@pytest.mark.parametrize("names", [load_styles().voices, tuple(f"fake_{i:02d}" for i in range(8))])
def test_both_sides_of_the_hold_out_have_balanced_voices(names):
    avoided = load_config("laptop").stages.choose_voices.avoid_pairs if "af_alloy" in names else ()
    sides = {}
    for use in ("rest", "held_out"):
        pairs = list_pairs(choose(150 * len(names), names=names, use=use, avoid_pairs=avoided))
        sides[use] = {frozenset(pair) for pair in pairs}
        for role in (0, 1):
            counts = Counter(pair[role] for pair in pairs)
            assert set(counts) == set(names)
            assert all(90 < count < 210 for count in counts.values())  # 150 each; sd 12
    assert not sides["rest"] & sides["held_out"]
    assert len(sides["held_out"]) >= (80 if len(names) == 28 else 6)


def test_more_voices_and_other_seeds_leave_every_pair_on_its_side():
    few, many = NAMES, (*NAMES, "fay", "gus", "hal", "ida", "jon", "kim")
    held = {frozenset(pair) for pair in list_pairs(choose(3000, names=many, use="held_out"))}
    among_few = {pair for pair in held if pair <= set(few)}
    for seed in (1, 2):
        assert {frozenset(pair) for pair in list_pairs(choose(1000, few, seed, use="held_out"))} == among_few
    more = {frozenset(pair) for pair in list_pairs(choose(3000, names=many, use="held_out", hold_out=0.6))}
    assert held < more


@pytest.mark.parametrize(("share", "empty"), [(0.0, "held_out"), (1.0, "rest")])
def test_a_side_without_pairs_is_said(share, empty):
    with pytest.raises(ConfigError, match=f"no pair to draw of the pairs to use \\('{empty}' at hold_out"):
        choose(1, use=empty, hold_out=share)
    assert len({frozenset(p) for p in list_pairs(choose(500, hold_out=share))}) == 10


def test_pairs_of_other_builds_are_never_drawn():
    taken = {("ann", "bob"), ("dan", "eve")}
    assert not {tuple(sorted(pair)) for pair in list_pairs(choose(500, taken=taken))} & taken
    everything = {(one, other) for one in NAMES for other in NAMES if one < other}
    with pytest.raises(ConfigError, match=r"the builds in `disjoint_from` use every pair of 5 voices"):
        choose(1, taken=everything)
    voices = [Voice(name, "en-us") for name in NAMES]
    with pytest.raises(ConfigError, match="use every pair"):
        check_voices(voices, ChooseVoices(), ["en"], NoExclusions(pairs=everything))
