"""Stage runs given to a cluster, and what became of them in words of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from prefect.exceptions import CrashedRun
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings

from bystander.schemas.errors import WorkerLostError
from bystander.tasks.run_stage import StageReport


class ClusterFuture:
    """A stage run on a cluster.

    `explain` turns an exception of the cluster's into one of ours; `note` hears of each report.
    """

    def __init__(
        self,
        inner: PrefectFuture[Any],
        explain: Callable[[Exception], Exception],
        note: Callable[[StageReport], None] | None = None,
    ) -> None:
        self._inner = inner
        self._explain = explain
        self._note = note

    def add_done_callback(self, call: Callable[[ClusterFuture], None], /) -> None:
        """Have `call` called with this once it is done, in some thread of the cluster's client."""
        self._inner.add_done_callback(lambda _: call(self))

    def result(self, *, raise_on_failure: bool = True) -> Any:
        """Return the report, or raise or return the exception that the run ended with."""
        try:
            outcome: Any = self._inner.result(raise_on_failure=False)
        except Exception as exc:
            outcome = self._explain(exc)
        if isinstance(outcome, CrashedRun) or (
            isinstance(outcome, BaseException) and not isinstance(outcome, Exception)
        ):
            outcome = WorkerLostError(f"a worker process was told to end ({outcome})")
        if self._note is not None and isinstance(outcome, StageReport):
            self._note(outcome)
        if raise_on_failure and isinstance(outcome, BaseException):
            raise outcome
        return outcome


def find_prefect_server() -> str:
    """Return the address of the API to which the workers of a cluster report: the user's, or the temporary server's.

    Without it, each worker process would start a server of its own.
    """
    from prefect.server.api.server import SubprocessASGIServer

    return PREFECT_API_URL.value() or SubprocessASGIServer().api_url


def using_server(url: str) -> AbstractContextManager[Any]:
    """Have the context that a task run takes along name this server."""
    return temporary_settings({PREFECT_API_URL: url})


def say_amounts(amounts: Mapping[str, float]) -> str:
    """Return amounts of resources in words."""
    return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items()) or "nothing"


def list_worker_variables(url: str) -> dict[str, str]:
    """Return the environment variables of worker processes: threads of Prefect's see no context, only these."""
    return {"PREFECT_API_URL": url, "PREFECT_LOGGING_LEVEL": "ERROR", "DO_NOT_TRACK": "1"}
