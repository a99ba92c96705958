"""The tree of errors. Every exception that leaves one of our modules is one of these."""

from __future__ import annotations


class BystanderError(Exception):
    """Base of all our errors. `str(error)` is one sentence fit for a terminal."""

    retryable: bool = False
    """Whether the same call may succeed if it is made again unchanged."""


class UserError(BystanderError):
    """The user's input is wrong: the message names the file, row or field and what to do. The CLI exits with 2."""


class ConfigError(UserError):
    """A configuration value, profile or override is invalid."""


class InputError(UserError):
    """An input file is missing, unreadable, empty or lacks a column."""


class PackError(UserError):
    """A prompt pack is invalid."""


class TaxonomyError(UserError):
    """A scenario taxonomy is invalid."""


class ModelStoreError(UserError):
    """A model file is missing, cannot be fetched, or does not match its checksum."""


class StorageError(BystanderError):
    """A part, shard or manifest cannot be read or written."""


class MissingFileError(StorageError):
    """A file that is asked for is not in its store."""


class CorruptPartError(StorageError):
    """A stored part is missing, truncated or does not match its checksum; it must be rebuilt."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path
        """Path of the part in its store."""


class StoreError(BystanderError):
    """A store as a whole fails: what is in it may be well, so nothing of it must be given up or made again."""


class StoreAccessError(StoreError, UserError):
    """A store cannot be used as it is set up: credentials, permissions, its bucket or its address are wrong."""


class StoreUnavailableError(StoreError):
    """A store cannot be reached or is overloaded now; the call may be repeated."""

    retryable = True


class BuildError(UserError):
    """A finished build fails verification, or a build cannot be finished as asked."""


class ShortBuildError(BystanderError):
    """A build is published, but with fewer rows than were asked for, and the user asked for all."""


class EngineError(BystanderError):
    """An engine as a whole failed (a fault of one row is a `RowFault` value instead)."""


class EngineUnavailableError(EngineError):
    """The engine cannot be reached or is overloaded now; the call may be repeated."""

    retryable = True


class EngineSetupError(EngineError, UserError):
    """The engine cannot be opened: a package, model file or setting is missing or wrong."""


class WorkerLostError(BystanderError):
    """A worker process of a cluster died while it ran a stage; another one may run it."""

    retryable = True


class BatchPendingError(EngineError):
    """Requests were written into files, and the build can go on when somebody has had them answered."""

    def __init__(self, script: str, requests: int) -> None:
        super().__init__(script, requests)
        self.script = script
        """Path of the script, beside the requests, that answers them where vLLM is."""
        self.requests = requests

    def __str__(self) -> str:
        return (
            f"{self.requests} requests wait for a language model: run {self.script} where vLLM is and can see this "
            "folder, then the same command again, which goes on from there"
        )


class StageContractError(BystanderError):
    """A stage broke its contract (rows lost, wrong schema). Always a bug of ours."""
