"""Only what a dead process of ours left behind is cleared up."""

from __future__ import annotations

import os
import subprocess
import sys

from bystander.flows.prefect_housekeeping import mark_this_process, owner_tag, stop_orphaned_servers

SLEEPER = "import sys, time; time.sleep(60)"


def start_seeming_server(mark: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", SLEEPER, "prefect.server.api.server:create_app"]
    return subprocess.Popen(arguments, env={**os.environ, "BYSTANDER_OWNER": mark})


def test_server_of_a_dead_process_is_stopped_and_that_of_a_living_one_is_not() -> None:
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    orphan = start_seeming_server(f"{dead.pid}:123.00")
    own = start_seeming_server(mark_this_process())
    try:
        assert stop_orphaned_servers() >= 1  # tests that kill runs, beside this one, leave orphans of their own
        assert orphan.wait(timeout=10) is not None
        assert own.poll() is None
    finally:
        for process in (orphan, own):
            process.kill()
            process.wait()


def test_reused_process_number_is_not_taken_for_its_former_bearer() -> None:
    orphan = start_seeming_server(f"{os.getpid()}:1.00")
    try:
        assert stop_orphaned_servers() >= 1
        assert orphan.wait(timeout=10) is not None
    finally:
        orphan.kill()
        orphan.wait()


def test_owner_tag_names_host_and_process() -> None:
    assert owner_tag(mark_this_process()).endswith(os.environ["BYSTANDER_OWNER"])
