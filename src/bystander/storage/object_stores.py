"""What differs between object stores: packages, settings, and what their clients' errors mean. The only such place."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from bystander.schemas.errors import MissingFileError, StorageError, StoreAccessError, StoreUnavailableError

UPLOAD_CHUNK_BYTES = 16 << 20
UPLOADS_AT_ONCE = 4

Fault = Literal["no_credentials", "refused", "forbidden", "no_bucket", "elsewhere", "unreachable", "busy"]
"""What is wrong with a store as a whole. `elsewhere` is a wrong region, or an address where no such store answers."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One kind of object store: how it is called, what has to be installed, and what a user can set."""

    name: str
    install: str
    credentials: str
    rights: str
    address: str
    upload_options: Mapping[str, Any] = field(default_factory=dict)
    """Bounds on the memory of a big upload, in the words of its fsspec package."""


_S3 = ObjectStore(
    name="S3",
    install="pip install 'bystander[s3]'",
    credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    rights="s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucket",
    address="AWS_ENDPOINT_URL and AWS_REGION",
    upload_options={"chunksize": UPLOAD_CHUNK_BYTES, "max_concurrency": UPLOADS_AT_ONCE},
)
_GCS = ObjectStore(
    name="Google Cloud Storage",
    install="pip install gcsfs",
    credentials="GOOGLE_APPLICATION_CREDENTIALS",
    rights="the role Storage Object User",
    address="STORAGE_EMULATOR_HOST",
    upload_options={"chunksize": UPLOAD_CHUNK_BYTES},
)
_AZURE = ObjectStore(
    name="Azure Blob Storage",
    install="pip install adlfs",
    credentials="AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    rights="the role Storage Blob Data Contributor",
    address="AZURE_STORAGE_ACCOUNT_NAME",
    upload_options={"max_concurrency": UPLOADS_AT_ONCE},
)
_UNKNOWN = ObjectStore("the store", "", "its credentials", "reading and writing", "its address")
_STORES = {"s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}


def find_object_store(uri: str) -> ObjectStore | None:
    """Return the kind of a URL's object store, or None where it is none of those known here."""
    return _STORES.get(uri.partition("://")[0]) if "://" in uri else None


def abort_uploads(filesystem: Any, path: str) -> None:
    """Drop big uploads below a path that killed writers left half done: nobody sees them, but S3 bills them.

    The other kinds drop theirs by themselves after a week.
    """
    if not hasattr(filesystem, "call_s3"):
        return
    bucket, key, _ = filesystem.split_path(path)
    listed = filesystem.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{key}/" if key else "")
    for upload in listed.get("Uploads", ()):
        filesystem.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def is_refused_creation(exc: Exception) -> bool:
    """Whether a conditional put failed because there is a file, or because somebody puts one at this very moment."""
    return any(isinstance(each, FileExistsError) or _says_conflict(each) for each in _follow_causes(exc))


def _says_conflict(exc: BaseException) -> bool:
    boto: Any = sys.modules.get("botocore.exceptions")
    if boto is not None and isinstance(exc, boto.ClientError):
        response: Any = getattr(exc, "response", {})
        return response.get("Error", {}).get("Code") in ("PreconditionFailed", "ConditionalRequestConflict", "412")
    retry: Any = sys.modules.get("gcsfs.retry")
    return retry is not None and isinstance(exc, retry.HttpError) and str(getattr(exc, "code", "")) == "412"


def explain_opening(uri: str, exc: Exception) -> str:
    """Return why a URL's filesystem cannot be opened, with what to install or to set where that is known."""
    kind = find_object_store(uri)
    if kind is None:
        return f"cannot be opened ({exc})"
    if isinstance(exc, ImportError):
        return f"the package for {kind.name} is not installed; {kind.install}"
    return f"cannot be opened ({exc}); check {kind.credentials}"


def translate_error(exc: Exception, uri: str, verb: str) -> Exception:
    """Return our error for what a filesystem raised while the file at `uri` was to be `verb` ("read", say).

    What concerns the store as a whole becomes a `StoreError`, so that nobody takes its files for lost.
    """
    fault = _classify(exc)
    if fault is None:
        if isinstance(exc, FileNotFoundError):
            return MissingFileError(f"{uri}: is missing")
        reason = (getattr(exc, "strerror", None) or str(exc) or type(exc).__name__).strip().splitlines()[0]
        return StorageError(f"{uri}: cannot be {verb} ({reason.rstrip('.')})")
    kind = find_object_store(uri) or _UNKNOWN
    parts = urlsplit(uri)
    bucket = f"{parts.scheme}://{parts.netloc}"
    said = str(exc).strip().splitlines()[0].rstrip(".") if str(exc).strip() else type(exc).__name__
    if fault == "no_credentials":
        return StoreAccessError(
            f"{uri}: cannot be {verb}: no credentials for {kind.name} ({said}); set {kind.credentials}"
        )
    if fault == "refused":
        return StoreAccessError(
            f"{uri}: cannot be {verb}: {kind.name} refuses the credentials ({said}); check {kind.credentials}"
        )
    if fault == "forbidden":
        return StoreAccessError(
            f"{uri}: cannot be {verb}: these credentials may not ({said}); a build needs {kind.rights} on {bucket}"
        )
    if fault == "no_bucket":
        return StoreAccessError(
            f"{uri}: cannot be {verb}: there is no {bucket}; make it first, or check its name and {kind.address}"
        )
    if fault == "elsewhere":
        return StoreAccessError(f"{uri}: cannot be {verb}: {bucket} is not served there ({said}); check {kind.address}")
    if fault == "unreachable":
        return StoreUnavailableError(
            f"{uri}: cannot be {verb}: {kind.name} cannot be reached ({said}); check {kind.address} and the network"
        )
    return StoreUnavailableError(f"{uri}: cannot be {verb}: {kind.name} is overloaded ({said})")


def _follow_causes(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _classify(exc: BaseException) -> Fault | None:
    """Return what a client's error says of the store: by the client's own classes, then by the system's."""
    chain = list(_follow_causes(exc))
    for each in chain:
        # A client that was never imported has raised nothing, so its exceptions are looked up, not imported.
        for name, classify in _CLASSIFIERS.items():
            module = sys.modules.get(name)
            if module is not None and (fault := classify(module, each)) is not None:
                return fault
    if any(isinstance(each, TimeoutError | ConnectionError) for each in chain):
        return "unreachable"
    if any(isinstance(each, PermissionError) for each in chain):
        return "forbidden"
    busy = any(isinstance(each, OSError) and each.errno == errno.EBUSY for each in chain)
    return "busy" if busy else None


_S3_CODES: dict[str, Fault] = {
    **dict.fromkeys(
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "InvalidToken",
            "TokenRefreshRequired",
            "RequestTimeTooSkewed",
            "InvalidSecurity",
            "InvalidClientTokenId",
        ),
        "refused",
    ),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"), "forbidden"),
    **dict.fromkeys(("PermanentRedirect", "AuthorizationHeaderMalformed", "MethodNotAllowed", "301"), "elsewhere"),
    **dict.fromkeys(("SlowDown", "RequestTimeout", "ThrottlingException", "TooManyRequests"), "busy"),
    "NoSuchBucket": "no_bucket",
    "InvalidBucketName": "no_bucket",
}


def _classify_botocore(boto: Any, exc: BaseException) -> Fault | None:
    if isinstance(exc, boto.ClientError):
        response: Any = getattr(exc, "response", {})
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(response.get("Error", {}).get("Code", ""))
        return _S3_CODES.get(code) or ("busy" if status >= 500 and status != 501 else None)
    missing = (
        boto.NoCredentialsError,
        boto.PartialCredentialsError,
        boto.CredentialRetrievalError,
        boto.TokenRetrievalError,
        boto.ProfileNotFound,
    )
    if isinstance(exc, missing):
        return "no_credentials"
    if isinstance(exc, (boto.ConnectionError, boto.HTTPClientError)):
        return "unreachable"
    if isinstance(exc, ValueError) and str(exc).startswith("Invalid endpoint"):
        return "elsewhere"  # botocore has no class of its own for it
    return None


def _classify_parsers(parsers: Any, exc: BaseException) -> Fault | None:
    return "elsewhere" if isinstance(exc, parsers.ResponseParserError) else None


def _classify_aiohttp(aiohttp: Any, exc: BaseException) -> Fault | None:
    return "unreachable" if isinstance(exc, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)) else None


def _classify_google_auth(auth: Any, exc: BaseException) -> Fault | None:
    if isinstance(exc, auth.DefaultCredentialsError):
        return "no_credentials"
    if isinstance(exc, auth.RefreshError):
        return "refused"
    return "unreachable" if isinstance(exc, auth.TransportError) else None


def _classify_gcsfs(retry: Any, exc: BaseException) -> Fault | None:
    if isinstance(exc, retry.HttpError):
        return _classify_status(int(getattr(exc, "code", 0) or 0))
    # It has no class of its own for this answer.
    return "forbidden" if type(exc) is OSError and str(exc).startswith("Forbidden: ") else None


def _classify_azure(azure: Any, exc: BaseException) -> Fault | None:
    if isinstance(exc, azure.ClientAuthenticationError):
        return "refused"
    if isinstance(exc, (azure.ServiceRequestError, azure.ServiceResponseError)):
        return "unreachable"
    if isinstance(exc, azure.HttpResponseError):
        if getattr(exc, "error_code", None) == "ContainerNotFound":
            return "no_bucket"
        return _classify_status(int(getattr(exc, "status_code", 0) or 0))
    return None


def _classify_status(status: int) -> Fault | None:
    if status == 401:
        return "refused"
    if status == 403:
        return "forbidden"
    return "busy" if status in (408, 429) or status >= 500 else None


_CLASSIFIERS: dict[str, Callable[[Any, BaseException], Fault | None]] = {
    "botocore.exceptions": _classify_botocore,
    "botocore.parsers": _classify_parsers,
    "google.auth.exceptions": _classify_google_auth,
    "gcsfs.retry": _classify_gcsfs,
    "azure.core.exceptions": _classify_azure,
    "aiohttp": _classify_aiohttp,
}
"""By the module that has a client's exceptions."""
