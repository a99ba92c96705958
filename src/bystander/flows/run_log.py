"""What the log of a run says of mistakes of the user: one line, and no traceback of ours."""

from __future__ import annotations

import logging

from prefect.exceptions import FailedRun

from bystander.schemas.errors import UserError

_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


def quiet_user_errors() -> None:
    """Let this process's logs of runs tell a user's mistake by its message alone; may be called again."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_tell_in_one_line)


def leave_out_told_failures() -> None:
    """Leave out of the log what only repeats a failed state that a flow has returned.

    Prefect's process ends by raising such a state, and logs the traceback of that.
    """
    logging.getLogger(_LOGGERS[0]).addFilter(_is_news)


def _tell_in_one_line(record: logging.LogRecord) -> bool:
    """Take the traceback of a user's mistake off a line, and let the mistake be its text; every line is kept."""
    fault = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(fault, UserError):
        record.msg, record.args = "%s", (" ".join(str(fault).split()),)
        record.exc_info = record.exc_text = None
    return True


def _is_news(record: logging.LogRecord) -> bool:
    return not (isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], FailedRun))
