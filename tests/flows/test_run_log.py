"""The log of a run: a user's mistake is one line, and everything else keeps its story."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.replaced_outcome import tell_replaced
from bystander.flows.run_log import quiet_user_errors
from bystander.schemas.errors import ConfigError, EngineSetupError, StorageError
from bystander.storage.filesystem import open_store


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[Kept]:
    kept = Kept()
    logger = logging.getLogger("prefect.flow_runs")
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


@pytest.mark.usefixtures("prefect_server")
def test_a_flow_that_finds_a_mistake_says_it_in_one_line(log: Kept) -> None:
    @flow(name="mistaken")
    def mistaken(words: str) -> None:
        raise EngineSetupError(words) from OSError("deep within")

    with pytest.raises(EngineSetupError):
        run_flow(mistaken, "model m: there is no such folder", 1, "test:log")
    said = [line for line in log.lines if "there is no such folder" in line and "Finished in state" not in line]
    assert said == ["model m: there is no such folder"]
    assert not any("Traceback" in line for line in log.lines)


def test_what_is_no_mistake_of_the_user_keeps_its_traceback() -> None:
    quiet_user_errors()
    quiet_user_errors()
    logger, lines = logging.getLogger("prefect.flow_runs"), []
    for fault in (ConfigError("data: name\na build"), StorageError("disk: is full"), ValueError("of ours")):
        try:
            raise fault
        except Exception:
            words = "Encountered exception during execution: %r"
            record = logger.makeRecord(logger.name, logging.ERROR, __file__, 1, words, (fault,), sys.exc_info())
            assert logger.filter(record)
            lines.append(logging.Formatter().format(record))
    assert lines[0] == "data: name a build"
    assert all("Traceback" in line for line in lines[1:])


def test_what_is_replaced_is_said_before(tmp_path: Path) -> None:
    told: list[str] = []
    tell_replaced(open_store(tmp_path), told.append)
    (tmp_path / "manifest.json").write_text("{}")
    tell_replaced(open_store(tmp_path), told.append)
    assert told == [
        f"{tmp_path}: will be replaced, since what lies there comes of other settings or data, or is damaged; "
        "another --name would keep both"
    ]
