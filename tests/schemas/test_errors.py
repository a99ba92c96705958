"""Errors come back from worker processes as what they were."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import cloudpickle
import pytest

from bystander.schemas.errors import BatchPendingError, BystanderError, CorruptPartError


def list_errors(kind: type[BystanderError] = BystanderError) -> Iterator[type[BystanderError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from list_errors(sub)


def make_error(kind: type[BystanderError]) -> BystanderError:
    if issubclass(kind, CorruptPartError):
        return kind("part a/b: is damaged", "a/b")
    return kind("run.sh", 3) if issubclass(kind, BatchPendingError) else kind("part a/b: is damaged")


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("kind", sorted(set(list_errors()), key=lambda kind: kind.__name__))
def test_errors_survive_pickling(kind: type[BystanderError], dumps: object) -> None:
    error = make_error(kind)
    again = pickle.loads(dumps(error))  # type: ignore[operator]
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.retryable == error.retryable


def test_their_fields_survive_too() -> None:
    assert vars(pickle.loads(pickle.dumps(CorruptPartError("lost", "a/b")))) == {"path": "a/b"}
    assert vars(pickle.loads(pickle.dumps(BatchPendingError("run.sh", 3)))) == {"script": "run.sh", "requests": 3}
