"""What tests of commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from bystander.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `bystander` with arguments in this process, on a wide terminal; return its exit code and what it said."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["bystander", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        return end.value.code if isinstance(end.value.code, int) else 0, out, err

    return call
