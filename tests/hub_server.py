"""A server that speaks the part of the Hugging Face hub's HTTP API that uploads of datasets use.

It answers as the hub does to `huggingface_hub`: repositories with branches and tags, trees in pages, the choice between
files in commits and large files, the LFS batch API, commits as newline-delimited JSON, and errors with `X-Error-Code`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Self

import yaml
from flask import Flask, Response, jsonify, request, send_file
from huggingface_hub.utils.sha import git_hash
from werkzeug.serving import make_server

TOKEN = "hf_test"
OWN = "lab"
"""The namespace in which the token may write."""
PAGE = 3
"""Files on a page of a tree."""


@dataclass
class HubFile:
    content: bytes
    is_large: bool

    def describe(self, path: str) -> dict[str, Any]:
        oid = git_hash(self.content)
        described: dict[str, Any] = {"type": "file", "path": path, "size": len(self.content), "oid": oid}
        if self.is_large:
            sha256 = hashlib.sha256(self.content).hexdigest()
            described["lfs"] = {"oid": sha256, "size": len(self.content), "pointerSize": 130}
        return described


@dataclass
class HubRepo:
    private: bool
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: dict[str, HubFile], message: str) -> str:
        told = json.dumps([len(self.commits), message, sorted(files)])
        oid = hashlib.sha1(told.encode(), usedforsecurity=False).hexdigest()
        self.commits[oid] = files
        self.branches[branch] = oid
        self.messages.append(message)
        return oid

    def name(self, revision: str) -> str:
        """Return the commit that a branch, a tag or a commit stands for."""
        return self.branches.get(revision) or self.tags.get(revision) or revision

    def find(self, revision: str) -> dict[str, HubFile] | None:
        return self.commits.get(self.name(revision))

    def read(self, revision: str = "main") -> dict[str, bytes]:
        """Return the files at a revision."""
        files = self.find(revision)
        assert files is not None
        return {path: file.content for path, file in files.items()}


class HubServer:
    """Use it as a context manager; it listens on a free port of this machine, in a thread."""

    def __init__(self) -> None:
        self.repos: dict[str, HubRepo] = {}
        self.large: dict[str, bytes] = {}
        """Large files by SHA-256."""
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[tuple[str, Any]] = []
        self.break_after: int | None = None
        """Large files that are still taken before the line goes down."""
        self._server = make_server("127.0.0.1", 0, self._make_app(), threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def list_writes(self) -> list[str]:
        """Return the paths of requests that change something, in order."""
        asks = ("/preupload/", "/objects/batch", "/validate-yaml")
        return [path for verb, path in self.requests if verb != "GET" and not any(ask in path for ask in asks)]

    def count_uploads(self) -> int:
        """Return how many large files were sent."""
        return sum(verb == "PUT" for verb, _ in self.requests)

    def _make_app(self) -> Flask:
        app = Flask("hub")
        base = "/api/datasets/<space>/<name>"

        @app.before_request
        def note() -> Response | None:
            verb = "GET" if request.method == "HEAD" else request.method
            self.requests.append((verb, request.path))
            if request.is_json:
                self.bodies.append((request.path, request.get_json()))
            if verb != "GET" and not request.path.startswith("/lfs/"):
                if request.headers.get("authorization") != f"Bearer {TOKEN}":
                    return _refuse(401, "", "Invalid credentials in Authorization header")
                space = (request.view_args or {}).get("space", OWN)
                if space != OWN:
                    return _refuse(403, "", "You don't have the rights to write to this namespace")
            return None

        @app.post("/api/repos/create")
        def create() -> Any:
            asked = request.get_json()
            if asked["organization"] != OWN:
                return _refuse(403, "", "You don't have the rights to create a dataset under this namespace")
            repo_id = f"{asked['organization']}/{asked['name']}"
            if repo_id in self.repos:
                return _refuse(409, "", "You already created this dataset repo")
            self.repos[repo_id] = repo = HubRepo(private=asked["visibility"] == "private")
            attributes = HubFile(b"*.parquet filter=lfs diff=lfs merge=lfs -text\n", False)
            repo.commit("main", {".gitattributes": attributes}, "initial commit")
            return jsonify(url=f"{self.url}/datasets/{repo_id}")

        @app.post("/api/validate-yaml")
        def validate() -> Any:
            head = request.get_json()["content"].split("---\n")[1]
            return jsonify(warnings=[] if isinstance(yaml.safe_load(head), dict) else [{"message": "no metadata"}])

        @app.get(base)
        @app.get(f"{base}/revision/<path:revision>")
        def tell(space: str, name: str, revision: str = "main") -> Any:
            repo = self._see(space, name)
            if repo is None:
                return _refuse(404, "RepoNotFound", "Repository not found")
            if (files := repo.find(revision)) is None:
                return _refuse(404, "RevisionNotFound", "Revision not found")
            siblings = [{"rfilename": path} for path in files]
            return jsonify(id=f"{space}/{name}", private=repo.private, sha=repo.name(revision), siblings=siblings)

        @app.get(f"{base}/refs")
        def refs(space: str, name: str) -> Any:
            repo = self.repos[f"{space}/{name}"]

            def describe(kind: str, found: dict[str, str]) -> list[dict[str, str]]:
                return [{"name": k, "ref": f"refs/{kind}/{k}", "targetCommit": v} for k, v in found.items()]

            return jsonify(branches=describe("heads", repo.branches), tags=describe("tags", repo.tags), converts=[])

        @app.get(f"{base}/tree/<revision>")
        @app.get(f"{base}/tree/<revision>/<path:folder>")
        def tree(space: str, name: str, revision: str, folder: str = "") -> Any:
            files = self.repos[f"{space}/{name}"].find(revision)
            if files is None:
                return _refuse(404, "RevisionNotFound", "Revision not found")
            folders = sorted({path.rpartition("/")[0] for path in files} - {""})
            listed: list[dict[str, Any]] = [
                {"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in folders
            ]
            listed += [file.describe(path) for path, file in sorted(files.items())]
            listed = [item for item in listed if not folder or item["path"].startswith(f"{folder}/")]
            start = int(request.args.get("cursor", 0))
            answer = jsonify(listed[start : start + PAGE])
            if start + PAGE < len(listed):
                following = f"{self.url}{request.path}?recursive=true&cursor={start + PAGE}"
                answer.headers["Link"] = f'<{following}>; rel="next"'
            return answer

        @app.post(f"{base}/paths-info/<path:revision>")
        def tell_paths(space: str, name: str, revision: str) -> Any:
            files = self.repos[f"{space}/{name}"].find(revision) or {}
            asked = request.form.getlist("paths") or request.get_json()["paths"]
            return jsonify([files[path].describe(path) for path in asked if path in files])

        @app.post(f"{base}/preupload/<path:revision>")
        def choose(space: str, name: str, revision: str) -> Any:
            files = self.repos[f"{space}/{name}"].find(revision) or {}
            answers = []
            for asked in request.get_json()["files"]:
                large = asked["path"].endswith(".parquet")
                there = files.get(asked["path"])
                described = there.describe(asked["path"]) if there is not None else {}
                oid = described.get("lfs", described).get("oid")
                mode = "lfs" if large else "regular"
                answers.append({"path": asked["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
            return jsonify(files=answers)

        @app.post("/datasets/<space>/<name>.git/info/lfs/objects/batch")
        def batch(space: str, name: str) -> Any:
            answers = []
            for asked in request.get_json(force=True)["objects"]:
                answer = dict(asked)
                if asked["oid"] not in self.large:
                    answer["actions"] = {"upload": {"href": f"{self.url}/lfs/{asked['oid']}"}}
                answers.append(answer)
            return jsonify(transfer="basic", objects=answers)

        @app.put("/lfs/<oid>")
        def take(oid: str) -> Any:
            data = request.get_data()
            if self.break_after is not None:
                if not self.break_after:
                    return Response("gone", 503)
                self.break_after -= 1
            if hashlib.sha256(data).hexdigest() != oid:
                return Response("other content", 400)
            self.large[oid] = data
            return ""

        @app.post(f"{base}/commit/<path:revision>")
        def commit(space: str, name: str, revision: str) -> Any:
            repo = self.repos[f"{space}/{name}"]
            files = dict(repo.find(revision) or {})
            message = ""
            for line in request.get_data().splitlines():
                operation = json.loads(line)
                value = operation["value"]
                match operation["key"]:
                    case "header":
                        message = value["summary"]
                        if value.get("parentCommit") not in (None, repo.branches[revision]):
                            return _refuse(412, "", "A commit has happened since")
                    case "file":
                        files[value["path"]] = HubFile(base64.b64decode(value["content"]), False)
                    case "lfsFile":
                        files[value["path"]] = HubFile(self.large[value["oid"]], True)
                    case "deletedFile":
                        del files[value["path"]]
            oid = repo.commit(revision, files, message)
            return jsonify(commitUrl=f"{self.url}/datasets/{space}/{name}/commit/{oid}", commitOid=oid)

        @app.post(f"{base}/branch/<path:branch>")
        def make_branch(space: str, name: str, branch: str) -> Any:
            repo = self.repos[f"{space}/{name}"]
            repo.branches[branch] = repo.branches["main"]
            return ""

        @app.post(f"{base}/tag/<path:revision>")
        def make_tag(space: str, name: str, revision: str) -> Any:
            repo = self.repos[f"{space}/{name}"]
            repo.tags[request.get_json()["tag"]] = repo.branches.get(revision, revision)
            return ""

        @app.get("/datasets/<space>/<name>/resolve/<revision>/<path:path>")
        def send(space: str, name: str, revision: str, path: str) -> Any:
            repo = self.repos[f"{space}/{name}"]
            files = repo.find(revision)
            if files is None or path not in files:
                return _refuse(404, "EntryNotFound", "Entry not found")
            file = files[path]
            answer = send_file(io.BytesIO(file.content), mimetype="application/octet-stream")
            answer.headers["ETag"] = f'"{git_hash(file.content)}"'
            answer.headers["X-Repo-Commit"] = repo.name(revision)
            return answer

        return app

    def _see(self, space: str, name: str) -> HubRepo | None:
        repo = self.repos.get(f"{space}/{name}")
        may_see = space == OWN and request.headers.get("authorization") == f"Bearer {TOKEN}"
        return repo if repo is not None and (may_see or not repo.private) else None


def _refuse(status: int, code: str, message: str) -> Response:
    answer = jsonify(error=message)
    answer.status_code = status
    answer.headers["X-Error-Code"] = code
    answer.headers["X-Error-Message"] = message
    return answer
