"""Pairs of voices that sound alike."""

import numpy as np
import pytest

from bystander.tasks.metrics.voice_similarity import find_similar_pairs, measure_quantiles


@pytest.fixture(scope="module")
def embeddings():
    vectors = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
    vectors[2999] = vectors[0] + 0.01
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_all_pairs_are_counted_and_the_closest_returned(embeddings):
    cosines = np.triu(embeddings @ embeddings.T, 1)
    expected = sorted(((c, i, j) for i, j in np.argwhere(cosines >= 0.85) for c in [cosines[i, j]]), reverse=True)
    pairs, count = find_similar_pairs(embeddings, 0.85, 5)
    assert count == len(expected) > 5
    assert [pair[:2] for pair in pairs] == [(i, j) for _, i, j in expected[:5]]
    assert pairs[0][:2] == (0, 2999)
    assert all(one < other for one, other, _ in pairs)


def test_few_voices_have_few_pairs(embeddings):
    assert find_similar_pairs(embeddings[:1], 0.5, 5) == ([], 0)
    assert find_similar_pairs(embeddings[:0], 0.5, 5) == ([], 0)
    assert find_similar_pairs(embeddings[:2], -1.0, 5)[1] == 1


def test_quantiles_are_of_different_voices(embeddings):
    rng = np.random.default_rng(1)
    low, middle, high = measure_quantiles(embeddings, (0.05, 0.5, 0.95), 20_000, rng)
    assert low < -0.3 < middle < 0.3 < high < 0.6
    assert measure_quantiles(embeddings[:1], (0.5,), 100, rng) == []
