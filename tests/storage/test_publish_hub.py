"""Publishing to the hub, against a server that speaks its API: what is there then, what is resumed, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flask")

from bystander.schemas.errors import BuildError, InputError, StoreAccessError, StoreUnavailableError
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.publish_hub import publish_to_hub
from bystander.storage.published_files import describe_published_build
from hub_server import OWN, TOKEN, HubServer
from published_builds import make_build

# The hub's client hands files to its HTTP client in a way that this one calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

ADDRESS = f"hf://datasets/{OWN}/talks"
REPO = f"{OWN}/talks"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    import huggingface_hub.constants
    from huggingface_hub.utils import _http

    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # read when it is imported
        impatient = types.SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
        monkeypatch.setattr(_http, "time", impatient)  # it waits 30 s before it gives up
        yield server


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_build(tmp_path_factory.mktemp("store"), "2026-11-30", shards=3)


def list_expected(build: Store, include: tuple[str, ...] = ()) -> dict[str, bytes]:
    files = describe_published_build(build, include).files  # type: ignore[arg-type]
    return {file.path: file.content or build.read_bytes(file.path) for file in files}


def read_released(hub: HubServer, revision: str = "main") -> dict[str, bytes]:
    files = hub.repos[REPO].read(revision)
    assert files.pop(".gitattributes")
    return files


def test_what_is_on_the_hub_is_the_build_byte_for_byte(hub: HubServer, build: Store) -> None:
    done = publish_to_hub(build, ADDRESS)
    assert read_released(hub) == list_expected(build)
    assert hub.repos[REPO].private
    created = next(body for path, body in hub.bodies if path == "/api/repos/create")
    assert created == {"name": "talks", "organization": OWN, "visibility": "private", "type": "dataset"}
    assert hub.repos[REPO].messages == ["initial commit", "Release 2026-11-30"]
    assert hub.repos[REPO].tags == {"2026-11-30": hub.repos[REPO].branches["main"]}
    assert done.location == f"{ADDRESS}@main"
    assert (done.count("put"), done.count("keep"), done.count("delete")) == (6, 0, 0)
    assert done.notes[0] == "The dataset was created, private."
    assert not any(path.startswith("rejects/") for path in read_released(hub))


def test_a_second_time_nothing_is_written(hub: HubServer, build: Store) -> None:
    publish_to_hub(build, ADDRESS)
    hub.requests.clear()
    done = publish_to_hub(build, ADDRESS)
    assert hub.list_writes() == []
    assert (done.count("put"), done.count("keep")) == (0, 6)
    assert done.notes == (
        "The dataset is private.",
        "Tag 2026-11-30 (there already) pins this release; main is what was published last.",
    )


def test_an_upload_that_was_interrupted_sends_only_what_is_missing(hub: HubServer, build: Store) -> None:
    hub.break_after = 2
    with pytest.raises(StoreUnavailableError, match="the hub answers 503; run the same command again") as caught:
        publish_to_hub(build, ADDRESS)
    assert caught.value.retryable
    assert read_released_or_nothing(hub) == {}
    assert hub.repos[REPO].tags == {}
    assert len(hub.large) == 2
    hub.break_after = None
    hub.requests.clear()
    publish_to_hub(build, ADDRESS)
    assert hub.count_uploads() == 1
    assert read_released(hub) == list_expected(build)


def read_released_or_nothing(hub: HubServer) -> dict[str, bytes]:
    return {path: data for path, data in hub.repos[REPO].read().items() if path != ".gitattributes"}


def test_a_commit_whose_tag_got_lost_is_tagged(hub: HubServer, build: Store) -> None:
    publish_to_hub(build, ADDRESS)
    head = hub.repos[REPO].branches["main"]
    hub.repos[REPO].tags.clear()
    publish_to_hub(build, ADDRESS)
    assert hub.repos[REPO].tags == {"2026-11-30": head}
    assert hub.repos[REPO].branches["main"] == head


def test_the_next_release_leaves_no_shard_of_the_one_before(hub: HubServer, build: Store, tmp_path: Path) -> None:
    publish_to_hub(build, ADDRESS, include=("rejects",))
    assert any(path.startswith("rejects/") for path in read_released(hub))
    hub.repos[REPO].find("main")["LICENSE"] = hub.repos[REPO].find("main")[".gitattributes"]  # type: ignore[index]
    later = make_build(tmp_path, "2026-12-01", shards=2, seed=1)
    done = publish_to_hub(later, ADDRESS)
    expected = list_expected(later)
    there = read_released(hub)
    assert there.pop("LICENSE")
    assert there == expected
    gone = [step.path for step in done.steps if step.action == "delete"]
    assert gone == sorted(set(list_expected(build, ("rejects",))) - set(expected))
    assert sum(path.startswith("data/") for path in gone) == 3
    pinned = read_released(hub, "2026-11-30")
    del pinned["LICENSE"]
    assert pinned == list_expected(build, ("rejects",))
    assert hub.repos[REPO].messages[1:] == ["Release 2026-11-30", "Release 2026-12-01"]


def test_an_older_release_comes_back_and_keeps_its_tag(hub: HubServer, build: Store, tmp_path: Path) -> None:
    publish_to_hub(build, ADDRESS)
    first = hub.repos[REPO].tags["2026-11-30"]
    publish_to_hub(make_build(tmp_path, "2026-12-01", shards=2, seed=1), ADDRESS)
    hub.requests.clear()
    publish_to_hub(build, ADDRESS)
    assert read_released(hub) == list_expected(build)
    assert hub.repos[REPO].tags["2026-11-30"] == first != hub.repos[REPO].branches["main"]
    assert hub.count_uploads() == 0


def test_a_branch_takes_a_release_and_main_stays(hub: HubServer, build: Store, tmp_path: Path) -> None:
    publish_to_hub(build, ADDRESS)
    later = make_build(tmp_path, "2026-12-01", shards=2, seed=1)
    done = publish_to_hub(later, ADDRESS, revision="candidate")
    assert done.location == f"{ADDRESS}@candidate"
    assert read_released(hub) == list_expected(build)
    assert read_released(hub, "candidate") == list_expected(later)
    assert hub.repos[REPO].tags["2026-12-01"] == hub.repos[REPO].branches["candidate"]


def test_a_dry_run_says_all_and_writes_nothing(hub: HubServer, build: Store, tmp_path: Path) -> None:
    fresh = publish_to_hub(build, ADDRESS, dry_run=True)
    assert hub.list_writes() == []
    assert hub.repos == {}
    assert fresh.notes[0] == "The dataset would be created, private."
    assert fresh.bytes_put == sum(map(len, list_expected(build).values()))
    publish_to_hub(build, ADDRESS)
    hub.requests.clear()
    later = publish_to_hub(make_build(tmp_path, "2026-12-01", shards=2, seed=1), ADDRESS, dry_run=True)
    assert hub.list_writes() == []
    assert later.count("delete") == 3


@pytest.mark.parametrize(
    ("private", "public", "message"),
    [
        (True, True, "is private; leave out --public, or make it public in its settings on the hub first"),
        (False, False, "is public, and releases are private by default; add --public to publish for everybody"),
    ],
)
def test_visibility_is_never_changed(hub: HubServer, build: Store, private: bool, public: bool, message: str) -> None:
    publish_to_hub(build, ADDRESS, public=not private)
    assert hub.repos[REPO].private == private
    hub.requests.clear()
    with pytest.raises(StoreAccessError, match=message):
        publish_to_hub(build, ADDRESS, public=public)
    assert hub.list_writes() == []
    assert hub.repos[REPO].private == private


def test_what_is_not_of_a_release_is_never_deleted(hub: HubServer, build: Store) -> None:
    publish_to_hub(build, ADDRESS)
    files = hub.repos[REPO].find("main")
    assert files is not None
    manifest = files.pop("manifest.json")
    with pytest.raises(BuildError, match=r"holds files that are of no release, such as data/.*would be deleted"):
        publish_to_hub(build, ADDRESS)
    files["manifest.json"] = type(manifest)(manifest.content.replace(b'"tpi-train"', b'"tpi-bench"', 1), False)
    with pytest.raises(BuildError, match="holds dataset tpi-bench, which would be deleted; publish tpi-train to"):
        publish_to_hub(build, ADDRESS)


def test_a_tag_of_another_build_stays(hub: HubServer, build: Store, tmp_path: Path) -> None:
    publish_to_hub(build, ADDRESS)
    other = make_build(tmp_path, "2026-11-30", shards=2, seed=1)
    with pytest.raises(BuildError, match="its tag 2026-11-30 is of another build of that name"):
        publish_to_hub(other, ADDRESS)
    assert read_released(hub) == list_expected(build)


def test_a_shard_that_changed_is_not_committed(hub: HubServer, tmp_path: Path) -> None:
    build = make_build(tmp_path, "2026-11-30", shards=1)
    shard = tmp_path / "tpi-train" / "2026-11-30" / read_manifest(build).shards[0].file
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(bytes(data))
    with pytest.raises(BuildError, match="is not what the manifest says; verify the build"):
        publish_to_hub(build, ADDRESS)
    assert read_released_or_nothing(hub) == {}


def test_of_a_remote_store_too(hub: HubServer, build: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bystander.storage.publish_hub._SMALL_BYTES", 0)
    remote = open_store("memory://published-builds/tpi-train/2026-11-30")
    for path in build.list():
        remote.write_bytes(path, build.read_bytes(path))
    publish_to_hub(remote, ADDRESS)
    assert read_released(hub) == list_expected(build)


@pytest.mark.parametrize(
    ("address", "token", "error", "message"),
    [
        (ADDRESS, None, StoreAccessError, "there is no token; log in with `hf auth login`, or set HF_TOKEN"),
        (ADDRESS, "hf_wrong", StoreAccessError, "cannot create the dataset: the token is not taken; log in again"),
        ("hf://datasets/others/talks", TOKEN, StoreAccessError, "cannot create the dataset: the token may not write"),
        ("hf://datasets/lab", TOKEN, InputError, "write it as hf://datasets/NAME/DATASET"),
        ("hf://models/lab/talks", TOKEN, InputError, "write it as hf://datasets/NAME/DATASET"),
        ("hf://datasets/lab/a..b", TOKEN, InputError, "is no name for a dataset on the hub"),
        ("hf://datasets/lab/a..b", None, InputError, "is no name for a dataset on the hub"),
        ("hf://datasets/lab/a b", TOKEN, InputError, "is no name for a dataset on the hub"),
    ],
)
def test_refusals_are_one_sentence(
    hub: HubServer,
    build: Store,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    address: str,
    token: str | None,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("HF_TOKEN")
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(error, match=message) as caught:
        publish_to_hub(build, address)
    assert "\n" not in str(caught.value)
    assert hub.repos == {}


@pytest.mark.parametrize("revision", ["a b", "", "a..b", "-x", "a/", "x.lock", "a^", "@", "a\n"])
def test_branches_that_cannot_be(hub: HubServer, build: Store, revision: str) -> None:
    with pytest.raises(InputError, match=r"^revision '.*': cannot be the name of a branch on the hub"):
        publish_to_hub(build, ADDRESS, revision=revision)
    assert hub.repos == {}


def test_a_hub_that_cannot_be_reached(hub: HubServer, build: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailableError, match=r"cannot read what is there .*; run the same command again"):
        publish_to_hub(build, ADDRESS)


_CONSUMER = """
from datasets import load_dataset

for revision in (None, "2026-11-30"):
    rows = load_dataset("lab/talks", revision=revision, split="train")
    print(len(rows), type(rows.features["audio"]).__name__, sorted(rows["id"])[0], len(set(rows["id"])))
"""


def test_load_dataset_gets_the_latest_release_or_the_pinned_one(hub: HubServer, build: Store, tmp_path: Path) -> None:
    publish_to_hub(build, ADDRESS)
    publish_to_hub(make_build(tmp_path, "2026-12-01", shards=2, seed=1), ADDRESS)
    settings = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
    environment = {**os.environ, **settings, "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _CONSUMER], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["9 Audio hn-0000 9", "10 Audio hn-0000 10"]
