"""What the two-input model perceives, learns and is scored by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bystander.schemas.errors import InputError
from bystander.schemas.mixture_config import CompareMixturesConfig
from bystander.schemas.train_tpi_config import MixtureName, TwoInputConfig, TwoInputs
from bystander.schemas.trained_two_input import TrainedTwoInput
from bystander.schemas.training_config import HeldOutSlice, Optimisation
from bystander.tasks.training.mixture import mix_parts
from bystander.tasks.training.two_input import answer_two_input, collate_two_input, make_two_input_model
from bystander.tasks.training.two_input_files import load_two_input, save_two_input
from bystander.tasks.training.two_input_rows import TwoInputSource, list_classes, make_examples
from bystander.tasks.training.two_input_scores import judge_answers, share_answers
from bystander.tasks.training.two_input_sound import LogMelFrames, measure_window_levels
from bystander.tasks.training.two_input_training import TwoInputData, train_two_input_rows
from bystander.tasks.training.two_input_words import hash_words, split_words
from two_input_rows import index_planted_rows, make_planted_rows

RATE = 16000
SMALL = TwoInputConfig(hash_buckets=1024, hidden=16, dropout=0.0)


def train(
    seed: int, mixture: MixtureName, inputs: TwoInputs, folder: Path, requests: int = 16, steps: int = 30
) -> torch.nn.Module:
    torch.set_num_threads(1)
    rows = make_planted_rows(requests)
    optimisation = Optimisation(max_steps=steps, learning_rate=0.01, batch_size=16, micro_batch_size=16)
    config = CompareMixturesConfig(seed=seed, device="cpu", optimisation=optimisation, held_out=HeldOutSlice(share=0.0))
    draws, held_out, _ = mix_parts(index_planted_rows(rows), mixture, {}, 0, 0.0)
    data = TwoInputData(tuple(rows), draws, held_out, list_classes(rows))
    return train_two_input_rows(config, SMALL.model_copy(update={"inputs": inputs}), data, folder)[0]


def test_words_of_twins_are_the_same_whatever_marks_the_seam() -> None:
    two_people = split_words("Play some music by...", "No, it's the NEXT song!")
    one_person = split_words("Play some music by no, it's the next song.", None)
    assert two_people == one_person == ("play", "some", "music", "by", "no", "it's", "the", "next", "song")
    numbers = hash_words(two_people, 64)
    assert len(numbers) == 2 * 9 - 1
    assert numbers.min() >= 1
    assert numbers.max() < 64
    assert (numbers == hash_words(one_person, 64)).all()


def test_a_step_in_level_is_in_no_frame_where_levels_are_flattened() -> None:
    rng = np.random.default_rng(0)
    clip = (0.1 * rng.standard_normal(2 * RATE)).astype(np.float32)
    stepped = np.concatenate([clip[:RATE], 3 * clip[RATE:]])
    flat, kept = LogMelFrames(flatten_level=True), LogMelFrames(flatten_level=False)
    assert flat.compute(clip, RATE).shape == (40, 40)
    np.testing.assert_allclose(flat.compute(clip, RATE), flat.compute(stepped, RATE), atol=2e-3)
    change = kept.compute(stepped, RATE) - kept.compute(clip, RATE)
    assert change[20:].mean() - change[:20].mean() == pytest.approx(np.log10(9), abs=0.01)
    levels = measure_window_levels(stepped, RATE)
    assert levels[5:].mean() - levels[:5].mean() == pytest.approx(20 * np.log10(3), abs=0.1)


def test_padding_changes_no_answer() -> None:
    rows = make_planted_rows(4)
    classes = list_classes(rows)
    assert classes == ("none", "actionable", "ignorable")
    model = make_two_input_model(SMALL, 6, len(classes), seed=3)
    examples = make_examples(rows, classes, SMALL.hash_buckets)
    together = answer_two_input(model, examples)
    alone = np.concatenate([answer_two_input(model, [example]).probabilities for example in examples])
    np.testing.assert_allclose(together.probabilities, alone, atol=1e-6)
    np.testing.assert_allclose(together.probabilities.sum(1), 1, atol=1e-6)
    assert together.embeddings.shape == (12, 16)
    assert collate_two_input(examples)["labels"].tolist() == [1, 0, 0] * 2 + [2, 0, 0] * 2


def test_words_that_are_left_out_hang_on_seed_row_and_epoch_alone() -> None:
    rows = make_planted_rows(3)
    classes = list_classes(rows)

    def read(seed: int, epoch: int, numbers: list[int]) -> list[list[int]]:
        source = TwoInputSource(rows, classes, 4096, word_dropout=0.5, seed=seed)
        return [example.words.tolist() for example in source.read(numbers, epoch)]

    assert read(1, 0, [0, 4]) == read(1, 0, [4, 0])[::-1]
    assert read(1, 0, [0, 4]) != read(1, 1, [0, 4])
    assert read(1, 0, [0, 4]) != read(2, 0, [0, 4])
    all_words = set(hash_words(rows[0].words, 4096).tolist())
    kept = read(1, 0, [0])[0]
    assert 0 < len(kept) < 2 * len(rows[0].words) - 1
    assert set(kept[: (len(kept) + 1) // 2]) <= all_words


def test_scores_of_a_case_made_by_hand() -> None:
    rows = make_planted_rows(2)  # two speakers, one-speaker twin, dyadic; both requests actionable
    probabilities = np.array(
        [
            [0.2, 0.5, 0.3],  # an interruption, rightly actionable
            [0.4, 0.3, 0.3],  # one speaker, taken for an interruption: .6 in all, though `none` is likeliest
            [0.9, 0.1, 0.0],
            [0.3, 0.2, 0.5],  # recognised, but of the wrong class
            [0.7, 0.2, 0.1],
            [0.1, 0.1, 0.8],  # a plain request taken for an interruption
        ]
    )
    answers = judge_answers(probabilities, ("none", "actionable", "ignorable"), rows)
    np.testing.assert_allclose(answers.interruption, [0.8, 0.6, 0.1, 0.7, 0.3, 0.9])
    shares = share_answers(answers, rows)
    assert shares.false_interruption == 0.5
    assert shares.recognised == 1.0
    assert shares.class_accuracy == 0.5
    assert shares.dyadic_interruption == 0.5


def test_a_planted_rule_is_learnt_from_both_inputs_and_hard_negatives_end_the_shortcut(tmp_path: Path) -> None:
    bench = make_planted_rows(20, "bench", first=100)
    classes = list_classes(bench)
    shares = {}
    for mixture in ("base", "full"):
        model = train(0, mixture, "text_and_sound", tmp_path / mixture, requests=60, steps=160)
        found = answer_two_input(model, make_examples(bench, classes, SMALL.hash_buckets))
        shares[mixture] = share_answers(judge_answers(found.probabilities, classes, bench), bench)
    assert shares["base"].false_interruption == shares["base"].recognised == 1
    assert shares["base"].class_accuracy >= 0.7
    assert shares["full"].false_interruption <= 0.25
    assert shares["full"].class_accuracy >= 0.6
    assert shares["full"].dyadic_interruption == 0


def test_a_model_that_only_reads_cannot_tell_twins_apart(tmp_path: Path) -> None:
    bench = make_planted_rows(8, "bench", first=100)
    model = train(0, "full", "text", tmp_path)
    found = answer_two_input(model, make_examples(bench, list_classes(bench), SMALL.hash_buckets))
    np.testing.assert_allclose(found.probabilities[0::3], found.probabilities[1::3], atol=1e-6)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    first, again, other = (
        train(seed, "va", "sound", tmp_path / name).state_dict()
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_saved_model_answers_the_same(tmp_path: Path) -> None:
    rows = make_planted_rows(3)
    classes = list_classes(rows)
    model = make_two_input_model(SMALL, 6, len(classes), seed=5)
    save_two_input(model, TrainedTwoInput(model=SMALL, width=6, classes=classes), tmp_path)
    loaded, about = load_two_input(tmp_path)
    assert about.classes == classes
    examples = make_examples(rows, classes, SMALL.hash_buckets)
    assert (
        answer_two_input(loaded, examples).probabilities.tolist()
        == answer_two_input(model, examples).probabilities.tolist()
    )
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="holds no two-input model"):
        load_two_input(tmp_path)
