"""Stores on a real S3 server, and what is said where it fails."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import InputError, MissingFileError, StoreAccessError, StoreUnavailableError
from bystander.storage.call_cache import locate_call_cache
from bystander.storage.filesystem import Store, open_store
from bystander.storage.object_stores import explain_opening, translate_error
from bystander.storage.parquet_files import open_parquet
from bystander.storage.parts import read_part, write_part
from bystander.storage.shards import write_shards
from object_store_server import PAGE_FILES, ObjectStoreServer

s3fs = pytest.importorskip("s3fs")

NO_RETRIES = {"AWS_MAX_ATTEMPTS": "1", "AWS_RETRY_MODE": "standard"}


@pytest.fixture
def store(object_store: ObjectStoreServer) -> Store:
    return open_store(f"s3://{object_store.make_bucket()}/a/store")


@pytest.mark.parametrize("count", [2 * PAGE_FILES + 5, pytest.param(1005, marks=pytest.mark.slow)])
def test_more_files_than_a_listing_has_on_a_page(store: Store, count: int) -> None:
    names = [f"cache/{i:04d}" for i in range(count)]
    store.map(lambda name: store.write_bytes(name, b"x"), names)
    assert store.list("cache") == names
    store.remove("cache", recursive=True)
    assert store.list() == []


def test_what_others_write_is_seen_at_once(store: Store, object_store: ObjectStoreServer) -> None:
    assert store.list() == []
    assert not store.exists("data/late")
    script = (
        "import sys; from bystander.storage.filesystem import Store; Store(sys.argv[1]).write_bytes('data/late', b'x')"
    )
    subprocess.run([sys.executable, "-c", script, store.uri], check=True)
    assert store.exists("data/late")
    assert (store.list(), store.list_folders()) == (["data/late"], ["data"])


def test_each_process_has_its_own_connections(store: Store) -> None:
    store.write_bytes("here", b"x")
    script = """
import os, sys
from bystander.storage.filesystem import Store
store = Store(sys.argv[1])
assert store.read_bytes("here") == b"x"
child = os.fork()
if not child:
    try:
        store.write_bytes("forked", store.read_bytes("here"))
    finally:
        os._exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", script, store.uri], check=True, timeout=60)
    assert store.read_bytes("forked") == b"x"


def test_a_big_file_is_uploaded_in_parts_that_nobody_sees_before_it_is_whole(
    store: Store, object_store: ObjectStoreServer
) -> None:
    data = bytes(40 << 20)
    since = object_store.mark()
    with store.open_write("big") as sink:
        for start in range(0, len(data), 1 << 20):
            sink.write(data[start : start + (1 << 20)])
        assert store.list() == []
    counted = object_store.count_requests(since)
    assert (counted["PART"], counted["PUT"], counted["POST"]) == (3, 0, 2)
    assert store.size("big") == len(data)


def test_failing_writers_leave_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    writing = store.open_write("big")
    writing.__enter__().write(bytes(20 << 20))
    assert not writing.__exit__(RuntimeError, RuntimeError(), None)
    assert store.list() == []
    assert not list(tmp_path.iterdir())


def make_table(rows: int, clip: int) -> pa.Table:
    audio = pa.array([os.urandom(clip) for _ in range(rows)], pa.binary())
    return pa.table({"id": [f"row-{i}" for i in range(rows)], "audio": audio, "label": ["x"] * rows})


def test_parts_are_read_with_few_requests(store: Store, object_store: ObjectStoreServer) -> None:
    small, big = make_table(10, 1000), make_table(100, 100_000)
    refs = [write_part(store, f"cache/{len(table)}.parquet", table) for table in (small, big)]
    since = object_store.mark()
    assert read_part(store, refs[0]).equals(small)
    assert object_store.count_requests(since) == {"GET": 1}
    since = object_store.mark()
    assert read_part(store, refs[1]).equals(big)
    assert object_store.count_requests(since) == {"GET": 1}
    since = object_store.mark()
    with open_parquet(store, refs[1].path, refs[1].bytes) as file:
        assert file.read(columns=["id", "label"]).equals(big.select(["id", "label"]))
    assert object_store.count_requests(since)["GET"] <= 3


def test_shards_are_moved_by_the_server(store: Store, object_store: ObjectStoreServer) -> None:
    table = make_table(30, 100_000)
    since = object_store.mark()
    shards = write_shards(
        store, "data", "train", table.schema, [table.slice(start, 10) for start in (0, 10, 20)], sampling_rate=None
    )
    counted = object_store.count_requests(since)
    assert counted["GET"] == 0
    assert counted["PUT"] == 2  # the upload, and the server's own copy under the name with the number of shards
    assert store.list() == [shards[0].file]
    with open_parquet(store, shards[0].file, shards[0].bytes) as file:
        assert file.read(columns=["id"])["id"].to_pylist() == table["id"].to_pylist()


CUT_OFF = """
import sys, time
import pyarrow as pa
from bystander.storage import remote_files
from bystander.storage.filesystem import Store
from bystander.storage.shards import write_shards

remote_files.SPOOL_BYTES = 1 << 10
upload = remote_files.Spool.upload

def stop_before_the_end(spool, filesystem, path, **options):
    call = filesystem._call_s3

    async def call_until_the_last(method, *args, **named):
        if method == "complete_multipart_upload":
            print("uploaded", flush=True)
            time.sleep(600)
        return await call(method, *args, **named)

    filesystem._call_s3 = call_until_the_last
    upload(spool, filesystem, path, chunksize=1 << 14)

remote_files.Spool.upload = stop_before_the_end
table = pa.table({"audio": pa.array([bytes(10_000)] * 20, pa.binary())})
write_shards(Store(sys.argv[1]), "data", "train", table.schema, [table], sampling_rate=None)
"""


def test_a_killed_upload_leaves_nothing_but_what_the_next_run_clears(store: Store) -> None:
    """All its parts are there when it is killed, but nobody has put them together."""
    process = subprocess.Popen([sys.executable, "-c", CUT_OFF, store.uri], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "uploaded\n"
    finally:
        process.kill()
        process.communicate()
    assert store.list() == []
    assert store.list_sizes(temporary=True) == {}
    bucket = store.uri.removeprefix("s3://").split("/")[0]
    assert len(store.filesystem.call_s3("list_multipart_uploads", Bucket=bucket)["Uploads"]) == 1
    store.remove_temporaries()
    assert "Uploads" not in store.filesystem.call_s3("list_multipart_uploads", Bucket=bucket)


def test_published_files_are_read_by_other_libraries(store: Store, object_store: ObjectStoreServer) -> None:
    from pyarrow import fs

    table = make_table(10, 1000)
    [shard] = write_shards(store, "data", "train", table.schema, [table], sampling_rate=None)
    own = fs.S3FileSystem(endpoint_override=object_store.url, access_key="key", secret_key="secret", region="us-east-1")
    path = f"{store.uri.removeprefix('s3://')}/{shard.file}"
    assert pq.read_table(path, filesystem=own)["id"].to_pylist() == table["id"].to_pylist()
    assert pq.read_table(store.uri_of(shard.file), filesystem=store.filesystem)["id"].equals(table["id"])


def test_calls_are_kept_on_this_machine(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert locate_call_cache(store).is_relative_to(tmp_path)
    assert locate_call_cache(store) != locate_call_cache(store.child("other"))


# ---- what is said where it fails ------------------------------------------------------------------------------------


def test_a_missing_bucket_is_named(object_store: ObjectStoreServer) -> None:
    lost = open_store("s3://not-there/store")
    for use in (lambda: lost.write_bytes("a", b""), lambda: lost.read_bytes("a"), lost.list):
        with pytest.raises(StoreAccessError, match=r"there is no s3://not-there; make it first, .* AWS_ENDPOINT_URL"):
            use()


@pytest.fixture
def fresh_clients(object_store: ObjectStoreServer) -> Iterator[None]:
    """Clients that are made in the test, of its environment, and forgotten after it."""
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.usefixtures("fresh_clients")
def test_missing_credentials_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(StoreAccessError, match=r"no credentials for S3 .*; set AWS_ACCESS_KEY_ID and AWS_SECRET"):
        open_store("s3://bucket/store").list()


@pytest.mark.usefixtures("fresh_clients")
@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("http://127.0.0.1:9", StoreUnavailableError, "S3 cannot be reached .*; check AWS_ENDPOINT_URL"),
        ("nonsense", StoreAccessError, "is not served there .*Invalid endpoint.*; check AWS_ENDPOINT_URL"),
    ],
)
def test_a_wrong_address_is_named(
    address: str, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AWS_ENDPOINT_URL": address, **NO_RETRIES}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=said):
        open_store("s3://bucket/store").read_bytes("x")


class Answers:
    """An HTTP server that gives S3's answers in turn, the last one for ever."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.left = list(answers)
        self.asked: Counter[str] = Counter()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked[self.command] += 1
                status, code = outer.left.pop(0) if len(outer.left) > 1 else outer.left[0]
                body = (
                    b"content" if status < 300 else f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
                )
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> Iterator[type[Answers]]:
    """Makes servers to which `s3://` leads."""
    made: list[Answers] = []

    class Named(Answers):
        def __init__(self, *answers: tuple[int, str]) -> None:
            super().__init__(*answers)
            made.append(self)
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{self.server.server_port}")
            for name, value in NO_RETRIES.items():
                monkeypatch.setenv(name, value)

    yield Named
    for server in made:
        server.stop()


@pytest.mark.parametrize("status", [503, 500])
def test_an_overloaded_store_is_asked_again(
    answer: type[Answers], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answer((status, "SlowDown"), (status, "SlowDown"), (200, ""))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    assert open_store("s3://bucket/store").read_bytes("x") == b"content"
    assert server.asked == {"GET": 3}


@pytest.mark.parametrize(
    ("status", "code", "error", "said"),
    [
        (503, "ServiceUnavailable", StoreUnavailableError, "S3 is overloaded"),
        (403, "InvalidAccessKeyId", StoreAccessError, "refuses the credentials .*; check AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", StoreAccessError, "refuses the credentials .*; check AWS_ACCESS_KEY_ID"),
        (400, "ExpiredToken", StoreAccessError, "refuses the credentials .*; check AWS_ACCESS_KEY_ID"),
        (403, "AccessDenied", StoreAccessError, "these credentials may not .*s3:PutObject.* on s3://bucket"),
        (301, "PermanentRedirect", StoreAccessError, "is not served there .*AWS_REGION"),
        (404, "NoSuchBucket", StoreAccessError, "there is no s3://bucket"),
        (404, "NoSuchKey", MissingFileError, "s3://bucket/store/x: is missing"),
    ],
)
def test_what_the_server_says_is_told_with_what_to_do(
    answer: type[Answers], status: int, code: str, error: type[Exception], said: str
) -> None:
    answer((status, code))
    with pytest.raises(error, match=said) as caught:
        open_store("s3://bucket/store").read_bytes("x")
    assert "\n" not in str(caught.value)


def test_a_store_out_of_reach_does_not_make_its_parts_corrupt(answer: type[Answers]) -> None:
    from bystander.storage.parts import PartRef
    from bystander.storage.stage_results import find_result_of_input

    answer((503, "ServiceUnavailable"))
    store = open_store("s3://bucket/store")
    with pytest.raises(StoreUnavailableError):
        read_part(store, PartRef("cache/x.parquet", 1, 10, "0" * 64))
    with pytest.raises(StoreUnavailableError):
        find_result_of_input(store, "stage", "digest")
    assert StoreUnavailableError.retryable


def test_the_command_says_it_in_one_line(object_store: ObjectStoreServer) -> None:
    command = [sys.executable, "-m", "bystander.cli.main", "build", "tpi-train", "--profile", "fake", "--rows", "4"]
    done = subprocess.run([*command, "--out", "s3://not-there/x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: s3://not-there/x/cache/probe-")
    assert "there is no s3://not-there; make it first" in done.stderr
    assert done.stderr.count("\n") == 1


def test_packages_that_are_not_here_are_named() -> None:
    for uri, package in {"gs://b/x": "gcsfs", "az://b/x": "adlfs", "s3://b/x": r"'bystander\[s3\]'"}.items():
        message = explain_opening(uri, ImportError("no"))
        assert message.endswith(f"is not installed; pip install {package}".replace("\\", ""))
    with pytest.raises(InputError, match="pip install gcsfs"):
        open_store("gs://bucket/x")


def test_other_stores_are_told_by_their_own_names() -> None:
    error = translate_error(PermissionError("no"), "gs://bucket/x", "read")
    assert str(error).endswith("a build needs the role Storage Object User on gs://bucket")
    error = translate_error(TimeoutError(), "az://container/x", "written")
    assert isinstance(error, StoreUnavailableError)
    assert "Azure Blob Storage cannot be reached (TimeoutError)" in str(error)


def test_errors_of_the_other_clients_are_told_apart() -> None:
    pytest.importorskip("gcsfs")
    pytest.importorskip("adlfs")
    from azure.core import exceptions as azure
    from gcsfs.retry import HttpError
    from google.auth import exceptions as google

    def explain(exc: Exception, uri: str) -> str:
        return str(translate_error(exc, uri, "read"))

    gs, az = "gs://bucket/x", "az://container/x"
    assert "no credentials for Google Cloud Storage" in explain(google.DefaultCredentialsError("none"), gs)
    assert "refuses the credentials" in explain(HttpError({"code": 401, "message": "m"}), gs)
    assert "is overloaded" in explain(HttpError({"code": 503, "message": "m"}), gs)
    assert "may not" in explain(OSError("Forbidden: https://bucket"), gs)
    assert "refuses the credentials" in explain(azure.ClientAuthenticationError("bad key"), az)
    assert "cannot be reached" in explain(azure.ServiceRequestError("no route"), az)
