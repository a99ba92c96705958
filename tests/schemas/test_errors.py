"""Errors come back from worker processes as what they were."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import cloudpickle
import pytest

from bystander.schemas import errors
from bystander.schemas.errors import BystanderError, CorruptPartError


def list_errors(kind: type[BystanderError] = BystanderError) -> Iterator[type[BystanderError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from list_errors(sub)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("kind", sorted(set(list_errors()), key=lambda kind: kind.__name__))
def test_errors_survive_pickling(kind: type[BystanderError], dumps: object) -> None:
    error = kind("part a/b: is damaged")
    if isinstance(error, CorruptPartError):
        error = CorruptPartError("part a/b: is damaged", "a/b")
    again = pickle.loads(dumps(error))  # type: ignore[operator]
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.retryable == error.retryable


def test_all_errors_are_in_one_module() -> None:
    assert {kind.__module__ for kind in list_errors()} == {errors.__name__}
    assert vars(CorruptPartError("lost", "a/b")) == {"path": "a/b"}
