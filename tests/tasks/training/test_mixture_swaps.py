"""What models lean on, measured on models of which it is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bystander.tasks.training.mixture_controls import score_confounds
from bystander.tasks.training.mixture_reliance import compare_swaps, summarise_spliced, summarise_swaps
from bystander.tasks.training.mixture_swaps import SwapAnswers, answer_swaps, pair_rows
from two_input_rows import make_planted_rows

BUCKETS = 1 << 16


class KnownModel(torch.nn.Module):
    """Log-odds of an interruption: `words` a word or pair of words, `sound` times the spread of the frames, `bias`."""

    def __init__(self, words: float, sound: float, bias: float = 0.0) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor([words, sound, bias]), requires_grad=False)

    def forward(self, words: torch.Tensor, frames: torch.Tensor, frame_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        mask = frame_mask.unsqueeze(2)
        mean = (frames * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        spread = (((frames - mean) ** 2 * mask).sum(1) / mask.sum(1)).mean(1)
        odds = self.weights[0] * (words > 0).sum(1) + self.weights[1] * spread + self.weights[2]
        # Two classes share the odds of an interruption.
        logits = torch.stack([torch.zeros_like(odds), odds - math.log(2), odds - math.log(2)], 1)
        return {"logits": logits, "embeddings": logits}


def spread(frames: np.ndarray) -> float:
    return float(frames.var(0).mean())


def test_effects_of_a_known_model_are_its_weights_times_what_changes() -> None:
    rows = make_planted_rows(6)
    swaps = pair_rows(rows, "hard_negative", seed=3, partners=2)
    assert len(swaps) == 2 * 12
    found = answer_swaps(KnownModel(0.25, 2.0, -1.0), swaps, BUCKETS)  # type: ignore[arg-type]
    more = [2 * (len(swap.words_of.words) - len(swap.words_of.request_words)) for swap in swaps]
    wider = [spread(swap.two.frames) - spread(swap.one.frames) for swap in swaps]
    np.testing.assert_allclose(found.words_effect, 0.25 * np.array(more), atol=1e-4)
    np.testing.assert_allclose(found.sound_effect, 2.0 * np.array(wider), atol=1e-4)
    words, sound = 0.25 * np.mean(more), 2 * np.mean(wider)
    assert found.words_share == pytest.approx(words / (words + sound), abs=1e-4)


def test_a_reader_has_no_effect_of_sound_a_listener_none_of_words_and_a_stubborn_model_neither() -> None:
    swaps = pair_rows(make_planted_rows(6), "hard_negative", seed=0)
    reader, listener, stubborn = (
        answer_swaps(KnownModel(*weights), swaps, BUCKETS)  # type: ignore[arg-type]
        for weights in ((0.5, 0.0), (0.0, 3.0), (0.0, 0.0, 2.0))
    )
    assert (reader.sound_effect == 0).all()
    assert reader.words_share == 1.0
    assert (listener.words_effect == 0).all()
    assert listener.words_share == 0.0
    assert math.isnan(stubborn.words_share)
    summary = summarise_swaps("base", "text_and_sound", "hard_negative", swaps, [stubborn, stubborn], 0.95, 0)
    assert (summary.words_share.mean, summary.taken) == (None, ((1, 1), (1, 1)))


def test_a_shortcut_by_words_shows_in_what_words_cause() -> None:
    swaps = pair_rows(make_planted_rows(8), "hard_negative", seed=0)
    longest = max(2 * len(swap.words_of.request_words) - 1 for swap in swaps)
    shortcut = answer_swaps(KnownModel(4.0, 0.01, -4.0 * longest - 2), swaps, BUCKETS)  # type: ignore[arg-type]
    hears = answer_swaps(KnownModel(0.001, 40.0, -8.0), swaps, BUCKETS)  # type: ignore[arg-type]
    summary = summarise_swaps("va", "text_and_sound", "hard_negative", swaps, [shortcut] * 3, 0.95, 0)
    assert summary.taken == ((0, 0), (1, 1))
    assert (summary.caused_by_words.over_seeds.mean, summary.caused_by_sound.over_seeds.mean) == (1, 0)
    assert summary.words_share.mean is not None
    assert summary.words_share.mean > 0.99
    assert summary.words_effect.over_rows.n == len(swaps)
    assert hears.caused_by_words.mean() == 0
    by_measure = {
        one.measure: one
        for one in compare_swaps("va", "full", "text_and_sound", "hard_negative", [shortcut] * 3, [hears] * 3)
    }
    assert by_measure["words_share"].difference == pytest.approx(shortcut.words_share - hears.words_share)
    assert by_measure["words_effect"].p is None  # all seeds differ by just as much


def test_each_row_meets_its_twin_first_and_dyadic_sounds_where_they_are_asked_for() -> None:
    rows = make_planted_rows(5)
    swaps = pair_rows(rows, "hard_negative", seed=1, partners=3)
    for start in range(0, len(swaps), 3):
        one = swaps[start]
        assert {one.one.id, one.two.id} == {one.words_of.id, one.words_of.twin_id}
        assert len({(swap.one.id, swap.two.id) for swap in swaps[start : start + 3]}) == 3
    assert all(swap.two.two_speakers and swap.one.part == "hard_negative" for swap in swaps)
    again = pair_rows(rows[::-1], "hard_negative", seed=1, partners=3)[-3:]
    assert [(swap.one.id, swap.two.id) for swap in again] == [(swap.one.id, swap.two.id) for swap in swaps[:3]]
    dyadic = pair_rows(rows, "dyadic", seed=1, partners=2)
    assert len(dyadic) == 5 * 2
    assert all(swap.one.part == "dyadic" and swap.words_of is swap.two for swap in dyadic)
    assert [swap.one.group == swap.two.group for swap in dyadic] == [True, False] * 5
    assert pair_rows([row for row in rows if row.part != "dyadic"], "dyadic", seed=1) == ()


def test_the_seam_control_of_a_case_made_by_hand() -> None:
    first = np.array([[0.9, 0.9], [0.2, 0.8], [0.1, 0.4]])  # fires on the seam once; a tie; two rightly ranked
    second = np.array([[0.6, 0.5], [0.2, 0.8], [0.1, 0.4]])
    found = summarise_spliced("full", "sound", ["a", "b", "c"], [first, second], 0.95, 0)
    assert found.pairs == 3
    assert found.one_voice.over_seeds.mean == pytest.approx(1 / 3)
    assert found.two_voices.over_seeds.mean == pytest.approx(2 / 3)
    assert found.ranked.over_seeds.mean == pytest.approx((2.5 / 3 + 2 / 3) / 2)


def test_a_linear_reader_says_whether_words_can_mislead() -> None:
    rows = make_planted_rows(40)
    bench = make_planted_rows(10, "bench", first=100)
    by_name = {one.name: one for one in score_confounds([r for r in rows if r.part != "hard_negative"], bench, "va")}
    words = by_name["words"]
    assert (words.false_interruption, words.recognised, words.request_interruption) == (1, 1, 0)
    assert words.twin_auc == 0.5
    assert by_name["duration"].request_interruption is None


def test_swaps_know_their_cells() -> None:
    answers = SwapAnswers(np.array([[[-3.0, 1.0], [2.0, 4.0]]]))  # request: one, two speakers; all words: the same
    assert answers.words_effect.tolist() == [4.0]  # (5 + 3) / 2
    assert answers.sound_effect.tolist() == [3.0]  # (4 + 2) / 2
    assert (answers.caused_by_words.tolist(), answers.caused_by_sound.tolist()) == ([1.0], [0.0])
    assert answers.words_share == pytest.approx(4 / 7)
