"""What crops are like, for people."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.schemas.sid import MIDDLE, UNINTERRUPTED
from bystander.schemas.train_sid_config import CropSettings
from bystander.tasks.training.crop_figures import measure_crops
from bystander.tasks.training.sid_crops import count_crops
from sid_rows import make_sid_row

SETTINGS = CropSettings(an_utterance=6)
ROWS = [make_sid_row(at, category) for at in range(6) for category in (MIDDLE, UNINTERRUPTED)]


def test_figures_are_of_the_crops_that_are_trained_on() -> None:
    found = measure_crops(ROWS, SETTINGS, seed=3, epochs=2)
    counts = count_crops(ROWS, SETTINGS, seed=3, epochs=2)
    assert (found.clips, found.crops_without_break) == (6, 6 * 6 * 2)
    assert len(found.from_label_s) == len(found.from_break_s) == len(found.positive) == 6 * 6 * 2
    assert sum(found.positive) == counts.positives
    assert [end > 0 for end in found.from_label_s] == list(found.positive)
    # Two words lie between the rows' break and the label's but for silence: one word's time.
    shifts = np.asarray(found.from_break_s) - np.asarray(found.from_label_s)
    assert shifts == pytest.approx(np.full(len(shifts), 0.24), abs=1e-6)


def test_the_density_that_is_wanted_is_a_density() -> None:
    found = measure_crops(ROWS, SETTINGS, seed=3)
    assert np.trapezoid(found.density, found.density_at_s) == pytest.approx(1.0, abs=0.02)
    assert found.density_at_s[int(np.argmax(found.density))] == pytest.approx(0.0, abs=0.03)


def test_examples_have_their_crops_of_the_first_epoch() -> None:
    found = measure_crops(ROWS, SETTINGS, seed=3, examples=1)
    (example,) = found.examples
    row = ROWS[0]
    assert (example.name, example.audio) == (row["id"], row["audio"]["bytes"])
    assert example.break_s == row["break_time_s"]
    assert len(example.ends_s) == 6
    assert [word["word"] for word in example.words] == [word["word"] for word in row["words"]]
    assert measure_crops([{**row, "audio": None} for row in ROWS], SETTINGS, seed=3).examples == []
