"""Makes the modules beside the tests importable, hypothesis repeatable on slow machines, and Prefect leave no trace."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from bystander.flows.prefect_settings import configure_prefect

sys.path.insert(0, str(Path(__file__).parent))

from object_store_server import ObjectStoreServer

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("repeatable")

# Before any test module imports Prefect: its settings are read once.
_home = tempfile.mkdtemp(prefix="bystander-prefect-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["PREFECT_HOME"] = _home
os.environ.pop("PREFECT_API_URL", None)
configure_prefect()


# A shell without job control starts background jobs with Ctrl-C ignored, `nohup` with hang-ups ignored, and every
# process that they start has it so.
for signum, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(signum) is signal.SIG_IGN:
        signal.signal(signum, handler)


@pytest.fixture(scope="module", autouse=True)
def settle_memory() -> None:
    """Leave what earlier modules keep (models, routes of servers, pages) out of every later search for garbage.

    It is millions of objects by the end: looking through them again and again makes tests take several times as long.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStoreServer]:
    """A real S3 server, started once, to which `s3://` leads while it runs."""
    for name in ("s3fs", "moto", "flask"):
        pytest.importorskip(name)
    before = {}
    with ObjectStoreServer() as server:
        for name, value in server.environment.items():
            before[name] = os.environ.get(name)
            os.environ[name] = value
        yield server
    for name, old in before.items():
        if old is None:
            del os.environ[name]
        else:
            os.environ[name] = old


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Prefect's temporary server, started once, since it takes seconds."""
    from prefect.logging.handlers import APILogHandler
    from prefect.server.api.server import SubprocessASGIServer

    from bystander.flows.prefect_housekeeping import mark_this_process, start_temporary_server

    mark_this_process()
    start_temporary_server()
    yield
    APILogHandler().flush()
    SubprocessASGIServer().stop()
