from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bystander.flows.listening_link import find_report_address, make_listen_command, say_how_to_listen


def test_builds_on_a_disk_have_a_file_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_report_address("my store/tpi/b 1") == (tmp_path / "my store/tpi/b 1/report.html").as_uri()
    assert find_report_address("my store/tpi/b 1").endswith("/my%20store/tpi/b%201/report.html")
    assert find_report_address(f"{tmp_path}/tpi/b/") == f"file://{tmp_path}/tpi/b/report.html"


@pytest.mark.parametrize("location", ["s3://bucket/tpi/b", "gs://bucket/tpi/b/", "memory://tpi/b"])
def test_builds_in_a_remote_store_keep_its_address(location: str) -> None:
    assert find_report_address(location) == f"{location.rstrip('/')}/report.html"


@pytest.mark.parametrize("location", ["/a/b", "/a store/b", "s3://bucket/it's; rm -rf", "$HOME/`x`"])
def test_the_command_can_be_pasted_into_a_shell(location: str) -> None:
    assert shlex.split(make_listen_command(location)) == ["bystander", "listen", location]
    assert make_listen_command(location) in say_how_to_listen(location)
