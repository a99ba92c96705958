"""Publishes a build to a dataset of the Hugging Face hub.

`main` holds the release that was published last, and each release has a tag of its name to be pinned by, as in
`load_dataset(..., revision="2026-11-30")`. Large files are uploaded first, which the hub keeps by their checksum, so an
upload that was interrupted sends only what is missing. Then a single commit puts all files of the release and deletes
those of the one before, of which `load_dataset` would read shards along with the new ones. So nobody ever sees half of
a release.

Reads `HF_TOKEN` or the login of `hf auth login`, and `HF_ENDPOINT`, as the hub's own programs do.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bystander.schemas.errors import BuildError, InputError, StoreAccessError
from bystander.schemas.hub_address import is_ref_name, parse_hub_address
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.hub_errors import wrap_hub_errors
from bystander.storage.published_files import (
    Part,
    Publication,
    PublishedBuild,
    PublishedFile,
    PublishStep,
    describe_published_build,
    is_of_a_build,
)

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.hf_api import RepoFile

_TYPE = "dataset"
_MAIN = "main"
_UPLOADED_AT_ONCE = 4
"""Files; of a build in a remote store, as many are copied to this machine's disk at a time."""
_SMALL_BYTES = 16 << 20
"""The hub takes files up to 10 MB into commits themselves, if they are of no kind that it keeps apart."""


@dataclass(frozen=True, slots=True)
class _Remote:
    """What a dataset of the hub holds, seen from a branch; one that is yet to be made begins as a copy of `main`."""

    private: bool
    branch_exists: bool
    commit: str | None
    files: Mapping[str, RepoFile]
    tagged: Mapping[str, RepoFile] | None
    """Files at the tag of this release, if there is one."""


def publish_to_hub(
    build: Store,
    address: str,
    public: bool = False,
    revision: str | None = None,
    include: Sequence[Part] = (),
    dry_run: bool = False,
    on_file: Callable[[PublishStep], None] | None = None,
) -> Publication:
    """Upload a build, which the caller has verified, to a dataset of the hub, and tag it with the build's name.

    A dataset that does not exist is created: private, unless `public`. The visibility of one that exists is never
    changed, and must be what is asked for.

    Args:
        build: the build's folder.
        address: `hf://datasets/NAME/DATASET`.
        public: the dataset is, or is to be, open to everybody.
        revision: branch that gets the release instead of `main`; it is created where there is none.
        include: parts that are otherwise left out.
        dry_run: only say what would be done; nothing is written.
        on_file: is told of each file before it is uploaded, kept or deleted.

    Raises:
        InputError: the address is none of a dataset, or the branch or the build has a name that the hub does not take.
        BuildError: it is no finished build, the dataset holds something else, its tag is of another build, or a file
            is not what its manifest says.
        StoreAccessError: there is no token, it may not write there, or the visibility is not what was asked for.
        StoreUnavailableError: the hub cannot be reached; the same call goes on from there.
    """
    from huggingface_hub import HfApi

    repo = parse_hub_address(address)
    if revision is not None and not is_ref_name(revision):
        raise InputError(f"revision {revision!r}: cannot be the name of a branch on the hub; name another one")
    published = describe_published_build(build, include)
    name = published.manifest.build
    if not is_ref_name(name):
        raise InputError(f"build {name!r}: cannot be the name of a tag on the hub; give the build another name")
    token = _read_token(address)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    branch = revision or _MAIN
    with wrap_hub_errors(address, "read what is there"):
        remote = _read_remote(api, repo, branch, name)
    if remote is not None:
        _assert_visibility(address, remote, public)
        _assert_same_dataset(api, repo, address, remote, published)
        if remote.tagged is not None and not _holds(remote.tagged, published):
            raise BuildError(
                f"{address}: its tag {name} is of another build of that name; give this build another name, or remove "
                "the tag"
            )
    notes = (_tell_visibility(remote, public, dry_run), _tell_tag(remote, name, branch))
    if dry_run:
        steps = _plan(remote.files if remote is not None else {}, published)
    else:
        target = _Target(api, repo, branch, address)
        if remote is None or not remote.branch_exists:
            remote = _create(target, remote, name, public)
        steps = _plan(remote.files, published)
        _upload(target, remote, published, steps, build, on_file or _tell_nobody)
    return Publication(f"{address}@{branch}", tuple(steps), notes)


def check_hub(address: str) -> None:
    """Do nothing if a dataset of the hub can be published to, as far as it shows before there is a build.

    Raises:
        InputError: the address is none of a dataset.
        StoreAccessError: there is no token.
    """
    parse_hub_address(address)
    _read_token(address)


def _read_token(address: str) -> str:
    from huggingface_hub import get_token

    with wrap_hub_errors(address, "log in"):
        token = get_token()
    if token is None:
        raise StoreAccessError(f"{address}: there is no token; log in with `hf auth login`, or set HF_TOKEN")
    return token


def _read_remote(api: HfApi, repo: str, branch: str, tag: str) -> _Remote | None:
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        info = api.repo_info(repo, repo_type=_TYPE)
    except RepositoryNotFoundError:
        return None
    refs = api.list_repo_refs(repo, repo_type=_TYPE)
    commits = {ref.name: ref.target_commit for ref in refs.branches}
    commit = commits.get(branch, commits.get(_MAIN))
    return _Remote(
        private=bool(info.private),
        branch_exists=branch in commits,
        commit=commit,
        files=_list_files(api, repo, commit) if commit is not None else {},
        tagged=_list_files(api, repo, tag) if any(ref.name == tag for ref in refs.tags) else None,
    )


def _list_files(api: HfApi, repo: str, revision: str) -> dict[str, RepoFile]:
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(repo, recursive=True, revision=revision, repo_type=_TYPE)
    return {item.path: item for item in tree if isinstance(item, RepoFile)}


def _assert_visibility(address: str, remote: _Remote, public: bool) -> None:
    if remote.private != public:
        return
    is_now, advice = (
        ("private", "leave out --public, or make it public in its settings on the hub first")
        if remote.private
        else ("public, and releases are private by default", "add --public to publish for everybody")
    )
    raise StoreAccessError(f"{address}: is {is_now}; {advice}")


def _assert_same_dataset(api: HfApi, repo: str, address: str, remote: _Remote, published: PublishedBuild) -> None:
    """Refuse a repository whose data is not of an earlier release: publishing would delete it."""
    others = [path for path in remote.files if is_of_a_build(path)]
    if not others:
        return
    dataset = None
    if MANIFEST_NAME in remote.files:
        with wrap_hub_errors(address, f"read {MANIFEST_NAME}"), tempfile.TemporaryDirectory() as folder:
            path = api.hf_hub_download(repo, MANIFEST_NAME, repo_type=_TYPE, revision=remote.commit, local_dir=folder)
            with contextlib.suppress(ValueError, AttributeError):
                dataset = json.loads(Path(path).read_bytes()).get("dataset")
    if dataset != published.manifest.dataset:
        what = f"dataset {dataset}" if dataset else f"files that are of no release, such as {others[0]}"
        raise BuildError(
            f"{address}: holds {what}, which would be deleted; publish {published.manifest.dataset} to a dataset of "
            "its own"
        )


def _holds(files: Mapping[str, RepoFile], published: PublishedBuild) -> bool:
    """Whether a tree has the same shards, and no others."""
    shards = {shard.file: shard.sha256 for shard in published.manifest.shards}
    there = {path: file.lfs and file.lfs.sha256 for path, file in files.items() if path.startswith("data/")}
    return shards == there


def _plan(there: Mapping[str, RepoFile], published: PublishedBuild) -> list[PublishStep]:
    known = {file.path for file in published.files}
    stale = [path for path in sorted(there) if path not in known and is_of_a_build(path)]
    return [
        *(
            PublishStep(file.path, "keep" if _is_there(there.get(file.path), file) else "put", file.size)
            for file in published.files
        ),
        *(PublishStep(path, "delete", there[path].size) for path in stale),
    ]


def _is_there(there: RepoFile | None, file: PublishedFile) -> bool:
    if there is None or there.size != file.size:
        return False
    if there.lfs is not None:
        return bool(there.lfs.sha256 == file.sha256)
    from huggingface_hub.utils.sha import git_hash

    return file.content is not None and there.blob_id == git_hash(file.content)


def _tell_visibility(remote: _Remote | None, public: bool, dry_run: bool) -> str:
    visibility = "public" if public else "private"
    if remote is None:
        return f"The dataset {'would be' if dry_run else 'was'} created, {visibility}."
    return f"The dataset is {visibility}."


def _tell_tag(remote: _Remote | None, name: str, branch: str) -> str:
    there = " (there already)" if remote is not None and remote.tagged is not None else ""
    return f"Tag {name}{there} pins this release; {branch} is what was published last."


def _tell_nobody(_: PublishStep) -> None: ...


@dataclass(frozen=True, slots=True)
class _Target:
    """Where it is published to."""

    api: HfApi
    repo: str
    branch: str
    address: str


def _create(target: _Target, remote: _Remote | None, tag: str, public: bool) -> _Remote:
    """Make the dataset, or its branch, and return what it holds then."""
    api, repo, address = target.api, target.repo, target.address
    if remote is None:
        with wrap_hub_errors(address, "create the dataset"):
            api.create_repo(repo, repo_type=_TYPE, private=not public)
            if bool(api.repo_info(repo, repo_type=_TYPE).private) == public:
                raise StoreAccessError(
                    f"{address}: was created, but the hub made it {'private' if public else 'public'}; nothing was "
                    "uploaded; see the settings of the organisation"
                )
    if target.branch != _MAIN:
        with wrap_hub_errors(address, f"create branch {target.branch}"):
            api.create_branch(repo, branch=target.branch, repo_type=_TYPE, exist_ok=True)
    with wrap_hub_errors(address, "read what is there"):
        made = _read_remote(api, repo, target.branch, tag)
    if made is None:
        raise StoreAccessError(f"{address}: was created, but the token may not see it; nothing was uploaded")
    return made


def _upload(
    target: _Target,
    remote: _Remote,
    published: PublishedBuild,
    steps: Sequence[PublishStep],
    build: Store,
    on_file: Callable[[PublishStep], None],
) -> None:
    from huggingface_hub import CommitOperationDelete

    name = published.manifest.build
    files = {file.path: file for file in published.files}
    operations: list[CommitOperationAdd | CommitOperationDelete] = []
    for step in steps:
        if step.action != "put":
            on_file(step)
        if step.action == "delete":
            operations.append(CommitOperationDelete(step.path))
    put = [step for step in steps if step.action == "put"]
    for start in range(0, len(put), _UPLOADED_AT_ONCE):
        group = put[start : start + _UPLOADED_AT_ONCE]
        for step in group:
            on_file(step)
        operations += _upload_files(target, build, [files[step.path] for step in group])
    commit = remote.commit
    if operations:
        with wrap_hub_errors(target.address, "commit the release"):
            commit = target.api.create_commit(
                target.repo,
                operations,
                commit_message=f"Release {name}",
                repo_type=_TYPE,
                revision=target.branch,
                parent_commit=remote.commit,
            ).oid
    if remote.tagged is None:
        with wrap_hub_errors(target.address, f"create tag {name}"):
            target.api.create_tag(target.repo, tag=name, revision=commit, repo_type=_TYPE)


def _upload_files(target: _Target, build: Store, files: Sequence[PublishedFile]) -> list[CommitOperationAdd]:
    """Upload the content of large files, and return what is to be committed.

    Raises:
        BuildError: a file is not what the manifest says; it is not committed.
    """
    from huggingface_hub import CommitOperationAdd

    with contextlib.ExitStack() as stack:
        added = [CommitOperationAdd(file.path, stack.enter_context(_open_content(build, file))) for file in files]
        with wrap_hub_errors(target.address, f"upload {', '.join(file.path for file in files)}"):
            target.api.preupload_lfs_files(target.repo, added, repo_type=_TYPE, revision=target.branch)
        for file, operation in zip(files, added, strict=True):
            if operation.upload_info.sha256.hex() != file.sha256:
                raise BuildError(f"{build.uri_of(file.path)}: is not what the manifest says; verify the build")
    return added


@contextlib.contextmanager
def _open_content(build: Store, file: PublishedFile) -> Iterator[Path | bytes]:
    """Yield a file: its content, or its path on this machine's disk, of a copy where the build lies elsewhere.

    What the hub may want as part of the commit, which are small files, is still there when the block has ended.
    """
    path = build.local_path(file.path)
    if file.content is not None:
        yield file.content
    elif path is not None:
        yield path
    elif file.size <= _SMALL_BYTES:
        yield build.read_bytes(file.path, file.size)
    else:
        with tempfile.TemporaryDirectory(prefix="bystander-upload-") as folder:
            copy = Path(folder) / "file"
            build.download(file.path, copy)
            yield copy
