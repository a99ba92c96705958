from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.embedding_projection import name_speaker_group, project_embeddings

GROUPS = ("one_speaker", "hard_negative", "two_speakers")


def make_clusters(rows: int = 60, d: int = 8) -> tuple[Any, list[str], list[Any]]:
    rng = np.random.default_rng(5)
    numbers = np.arange(rows) % 3
    centres = 20 * np.eye(3, d)
    return centres[numbers] + rng.normal(size=(rows, d)), [f"r{i}" for i in range(rows)], [GROUPS[i] for i in numbers]


@pytest.mark.parametrize("d", [8, 80])
def test_groups_that_lie_apart_stay_apart(d: int) -> None:
    embeddings, ids, groups = make_clusters(60, d)
    picture = project_embeddings(embeddings, ids, groups, system="s", seed=3, perplexity=10)
    assert (picture.system, picture.perplexity, picture.ids, picture.groups) == ("s", 10, tuple(ids), tuple(groups))
    points = np.column_stack([picture.x, picture.y])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + np.diag(np.full(60, np.inf))
    assert [groups[i] for i in distances.argmin(axis=1)] == groups


def test_same_input_gives_the_same_points_at_any_scale_of_the_embeddings() -> None:
    embeddings, ids, groups = make_clusters(30)
    one = project_embeddings(embeddings, ids, groups, system="s", seed=2**62, perplexity=5)
    assert project_embeddings(embeddings, ids, groups, system="s", seed=2**62, perplexity=5) == one
    assert project_embeddings(embeddings * 2.0**900, ids, groups, system="s", seed=2**62, perplexity=5) == one


@pytest.mark.parametrize(("rows", "used"), [(4, 1.0), (16, 5.0), (60, 59 / 3)])
def test_perplexity_is_lowered_for_few_rows(rows: int, used: float) -> None:
    embeddings, ids, groups = make_clusters(rows)
    picture = project_embeddings(embeddings, ids, groups, system="s", seed=1)
    assert picture.perplexity == used
    assert len(picture.x) == rows
    assert np.isfinite([picture.x, picture.y]).all()


def test_equal_embeddings_are_one_spot() -> None:
    picture = project_embeddings(np.full((6, 3), 0.1), list("abcdef"), ["one_speaker"] * 6, system="s", seed=1)
    assert set(picture.x) == set(picture.y) == {0.0}


def test_unusable_embeddings_are_refused() -> None:
    embeddings, ids, groups = make_clusters(9)
    with pytest.raises(InputError, match=r"shape \(3, 8\)"):
        project_embeddings(embeddings[:3], ids[:3], groups[:3], system="s", seed=1)
    with pytest.raises(InputError, match=r"shape \(9, 1\)"):
        project_embeddings(embeddings[:, :1], ids, groups, system="s", seed=1)
    with pytest.raises(InputError, match="9 rows for 8 ids and 9 groups"):
        project_embeddings(embeddings, ids[1:], groups, system="s", seed=1)
    with pytest.raises(InputError, match="at least 1"):
        project_embeddings(embeddings, ids, groups, system="s", seed=1, perplexity=0.5)
    embeddings[4, 2] = np.nan
    with pytest.raises(InputError, match="row 4"):
        project_embeddings(embeddings, ids, groups, system="s", seed=1)


def test_groups_of_rows() -> None:
    assert name_speaker_group({"n_speakers": 2, "label": "ignorable"}) == "two_speakers"
    assert name_speaker_group({"n_speakers": 1, "label": "hard_negative"}) == "hard_negative"
    assert name_speaker_group({"n_speakers": 1, "label": "none"}) == "one_speaker"
