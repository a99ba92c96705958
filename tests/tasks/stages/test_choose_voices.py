"""Voices: seeded, different, balanced, never an avoided pair."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bystander.schemas.config import load_config
from bystander.schemas.engines import Voice
from bystander.schemas.errors import ConfigError
from bystander.schemas.exclusions import NoExclusions
from bystander.schemas.tpi import SCORED, VOICED
from bystander.schemas.tpi_params import ChooseVoices
from bystander.tasks.engines.kokoro_styles import load_styles
from bystander.tasks.stages.choose_voices import STAGE, check_voices
from bystander.tasks.stages.voice_pairs import PairTable
from bystander.tasks.stages.voice_sides import find_held_out
from scripted_engines import TonesInOrder, make_context
from tpi_rows import make_rows

NAMES = ("ann", "bob", "cat", "dan", "eve")

GOLDEN = {
    "held_out": [
        ("am_fenrir", "am_onyx"),
        ("af_nova", "bf_emma"),
        ("bf_isabella", "am_echo"),
        ("am_fenrir", "am_santa"),
    ],
    "rest": [
        ("am_fenrir", "am_michael"),
        ("af_nova", "bf_isabella"),
        ("bf_isabella", "af_sky"),
        ("am_fenrir", "bf_emma"),
    ],
}


def choose(
    n_rows,
    names=NAMES,
    seed=1,
    rows=None,
    languages=None,
    taken=frozenset(),
    taken_voices=frozenset(),
    angles=None,
    **params,
):
    embedded = {name: np.array([np.cos(x), np.sin(x)], "<f4").tobytes() for name, x in (angles or {}).items()}
    voices = [Voice(name, (languages or {}).get(name, "en-us"), embedding=embedded.get(name, b"")) for name in names]
    table = make_rows(SCORED, rows or [{}] * n_rows)
    context = make_context(ChooseVoices(**params), seed, speech=TonesInOrder(voices=voices))
    return STAGE(table, replace(context, exclusions=NoExclusions(pairs=taken, voices=taken_voices)))


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


MANY = tuple(f"voice-{i:03d}" for i in range(400))


def test_held_out_voices_occur_on_one_side_only():
    sides = {
        use: {voice for pair in list_pairs(choose(1500, MANY, use=use, hold_out_by="voice")) for voice in pair}
        for use in ("rest", "held_out")
    }
    assert not sides["rest"] & sides["held_out"]
    assert sides["rest"] | sides["held_out"] == set(MANY)
    assert 70 < len(sides["held_out"]) < 130  # 100; sd 9
    everything = {voice for pair in list_pairs(choose(1500, MANY, hold_out_by="voice")) for voice in pair}
    assert len(everything) == len(MANY)


def test_voices_of_other_builds_are_not_drawn_where_voices_are_held_out():
    taken = frozenset(NAMES[:2])
    pairs = list_pairs(choose(200, taken_voices=taken, hold_out_by="voice"))
    assert {voice for pair in pairs for voice in pair} == set(NAMES[2:])
    assert {voice for pair in list_pairs(choose(200, taken_voices=taken)) for voice in pair} == set(NAMES)
    with pytest.raises(ConfigError, match="use all but one voice of 5 voices"):
        choose(1, taken_voices=frozenset(NAMES[:4]), hold_out_by="voice")


def test_a_side_with_one_voice_is_said():
    with pytest.raises(ConfigError, match=r"no pair to draw of the voices to use \('held_out' at hold_out 0\)"):
        choose(1, use="held_out", hold_out=0.0, hold_out_by="voice")


def test_voices_that_sound_alike_are_never_paired():
    angles = {"ann": 0.0, "bob": 0.1, "cat": 0.5, "dan": 1.5, "eve": 3.0}
    output = choose(400, angles=angles, avoid_similar=0.9)  # cosines: ann bob .995, bob cat .92, ann cat .878
    pairs = {frozenset(pair) for pair in list_pairs(output)}
    assert len(pairs) == 8
    assert not pairs & {frozenset(("ann", "bob")), frozenset(("bob", "cat"))}


def test_voices_without_embedding_cannot_be_told_apart():
    with pytest.raises(ConfigError, match=r"avoid_similar: the speech engine states no speaker embedding of cat, dan"):
        choose(1, angles={"ann": 0.0, "bob": 1.0, "eve": 2.0}, avoid_similar=0.9)


def test_many_voices_are_balanced_too():
    pairs = list_pairs(choose(12_000, MANY, use="held_out"))
    assert {frozenset(pair) for pair in pairs} <= {
        frozenset((MANY[i], MANY[j])) for i, j in zip(*np.nonzero(find_held_out(MANY, 0.25)), strict=True) if i != j
    }
    for role in (0, 1):
        counts = np.array([Counter(pair[role] for pair in pairs)[name] for name in MANY])
        # 30 each. Chi-squared of 399 degrees of freedom: mean 399, sd 28.
        assert 285 < ((counts - 30) ** 2 / 30).sum() < 515


def test_the_scale_of_many_voices_balances_both_roles():
    voices = [Voice(name, "en") for name in MANY]
    avoid = tuple((MANY[0], name) for name in MANY[1:300])
    table = PairTable.build(voices, ChooseVoices(avoid_pairs=avoid, use="rest"))
    weights = table._weights * table._scale
    chances = weights / weights.sum(axis=1, keepdims=True)
    assert np.allclose(chances.sum(axis=0), 1, atol=1e-9)


def test_what_was_drawn_for_small_banks_is_drawn_still():
    """Golden values: a build of the embedded voices must not change when large banks do."""
    names, avoided = load_styles().voices, load_config("laptop").stages.choose_voices.avoid_pairs
    rows = [{"id": f"row-{i}"} for i in range(4)]
    found = {use: list_pairs(choose(0, names, 7, rows, avoid_pairs=avoided, use=use)) for use in ("rest", "held_out")}
    assert found == GOLDEN
