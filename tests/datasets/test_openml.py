"""Fetching from OpenML, against a real server on this machine."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from colabel.datasets import DatasetError, load, loading
from colabel.datasets.catalogue import CATALOGUE
from colabel.datasets.loading import default_cache

RNG = np.random.default_rng(0)
LABELS = [f"label.{k}" for k in range(6)]


def _emotions(n_rows=593, n_features=72):
    """Make an ARFF of the shape of emotions, as OpenML has it: TRUE/FALSE labels, no XML."""
    lines = ["@relation 'x'", *(f"@attribute 'f{j}' numeric" for j in range(n_features))]
    lines += [*(f"@attribute '{name}' {{'FALSE','TRUE'}}" for name in LABELS), "@data"]
    for row in RNG.integers(10, size=(n_rows, n_features + 6)).tolist():
        truth = ["TRUE" if value > 4 else "FALSE" for value in row[n_features:]]
        lines.append(",".join([*map(str, row[:n_features]), *truth]))
    return ("\n".join(lines) + "\n").encode()


ARFF = _emotions()


class Server:
    """A small OpenML: answers by path, counts requests, and misbehaves on demand."""

    def __init__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with outer.lock:
                    outer.requests.append(self.path)
                    queue = outer.answers.get(self.path, [])
                    answer = queue.pop(0) if len(queue) > 1 else (queue or [(404, b"", {})])[0]
                status, body, headers = answer
                self.send_response(status)
                for key, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.lock = threading.Lock()
        self.requests: list[str] = []
        self.answers: dict[str, list[tuple[int, bytes, dict[str, str]]]] = {}
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # a client that gave up is part of the test
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def put(self, path, body, status=200, headers=None):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.setdefault(path, []).append((status, raw, headers or {}))

    def describe(self, data_id=40589, body=ARFF, **changes):
        found = {
            "url": f"{self.url}/data/v1/download/1/x.arff",
            "md5_checksum": hashlib.md5(body).hexdigest(),
            "default_target_attribute": ",".join(LABELS),
        }
        found |= changes
        self.put(f"/api/v1/json/data/{data_id}", {"data_set_description": found})


FILE = "/data/v1/download/1/x.arff"


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in ("COLABEL_DATA", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the attempts of pooch
    running = Server()
    monkeypatch.setenv("COLABEL_OPENML", running.url)
    yield running
    running.http.shutdown()
    running.http.server_close()


def _files(tmp_path):
    folder = tmp_path / "cache" / "openml" / "emotions"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fetches_and_then_uses_the_cache(server, tmp_path, capsys):
    server.describe()
    server.put(FILE, ARFF)
    data = load("emotions")
    assert (data.n_rows, data.n_features, data.n_labels) == (593, 72, 6)
    assert data.label_names == tuple(LABELS)
    assert data.is_binary
    assert _files(tmp_path) == [f"{hashlib.md5(ARFF).hexdigest()}.arff", "description.json"]
    n_requests = len(server.requests)
    again = load("emotions")
    assert len(server.requests) == n_requests
    np.testing.assert_array_equal(data.X, again.X)
    np.testing.assert_array_equal(data.Y, load("emotions", source="cache").Y)
    load("emotions", source="openml", progress=False)
    assert len(server.requests) == n_requests + 2
    assert capsys.readouterr() == ("", "")


def test_damaged_cache_is_fetched_again(server, tmp_path):
    server.describe()
    server.put(FILE, ARFF)
    load("emotions", progress=False)
    file = next((tmp_path / "cache" / "openml" / "emotions").glob("*.arff"))
    file.write_bytes(ARFF[:-100])
    load("emotions", progress=False)
    assert server.requests.count(FILE) == 2
    assert file.read_bytes() == ARFF
    (file.parent / "description.json").write_text('{"md5": "../../evil"}')
    load("emotions", progress=False)
    assert server.requests.count(FILE) == 3


def test_checksum_mismatch(server, tmp_path):
    server.describe(md5_checksum="0" * 32)
    server.put(FILE, ARFF)
    with pytest.raises(DatasetError, match=r"hash of downloaded file .*COLABEL_DATA"):
        load("emotions", progress=False)
    assert _files(tmp_path) == []


def test_truncated_body(server, tmp_path):
    server.describe()
    server.put(FILE, ARFF[:5000], headers={"Content-Length": str(len(ARFF))})
    with pytest.raises(DatasetError, match="could not be had from OpenML"):
        load("emotions", progress=False)
    assert server.requests.count(FILE) == 3
    assert _files(tmp_path) == []


def test_truncated_once_then_whole(server):
    server.describe()
    server.put(FILE, ARFF[:5000], headers={"Content-Length": str(len(ARFF))})
    server.put(FILE, ARFF)
    assert load("emotions", progress=False).n_rows == 593


def test_what_is_not_there(server):
    server.describe()
    with pytest.raises(DatasetError, match=r"404 Client Error.*try again later"):
        load("emotions", progress=False)


def test_500_then_success(server):
    server.put("/api/v1/json/data/40589", b"", status=503)
    server.describe()
    server.put(FILE, b"", status=500)
    server.put(FILE, ARFF)
    assert load("emotions", progress=False).n_rows == 593
    assert len(server.requests) == 4


def test_500_for_ever(server):
    server.put("/api/v1/json/data/40589", b"", status=500)
    with pytest.raises(DatasetError, match="500 Server Error"):
        load("emotions", progress=False)
    assert len(server.requests) == 3


def test_refused_connection(server):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(DatasetError, match=r"could not be had.*set COLABEL_DATA"):
        load("emotions", progress=False)


def test_time_out(server, monkeypatch):
    monkeypatch.setattr(loading, "_TIMEOUT", 0.05)
    held = server.lock
    with held, pytest.raises(DatasetError, match="timed out"):
        load("emotions", progress=False)


def test_concurrent_loads(server, tmp_path):
    server.describe()
    server.put(FILE, ARFF)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: load("emotions", progress=False), range(4)))
    assert all(np.array_equal(r.X, results[0].X) for r in results)
    assert len(_files(tmp_path)) == 2


@pytest.mark.parametrize(
    ("n_rows", "n_features", "word"),
    [(592, 72, "592 rows, 72 features"), (593, 71, "593 rows, 71 features")],
)
def test_wrong_shape_is_not_kept(server, tmp_path, n_rows, n_features, word):
    body = _emotions(n_rows, n_features)
    server.describe(body=body)
    server.put(FILE, body)
    with pytest.raises(DatasetError, match=word):
        load("emotions", progress=False)
    assert _files(tmp_path) == []


def test_labels_without_targets_are_the_truth_values(server):
    server.describe(default_target_attribute="label.0")
    server.put(FILE, ARFF)
    assert load("emotions", progress=False).label_names == tuple(LABELS)


def test_redirects(server):
    server.describe()
    server.put(FILE, b"", status=302, headers={"Location": "/elsewhere"})
    server.put("/elsewhere", ARFF)
    assert load("emotions", progress=False).n_rows == 593


def test_redirect_to_a_file_is_refused(server):
    server.describe()
    server.put(FILE, b"", status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(DatasetError):
        load("emotions", progress=False)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "x.arff"])
def test_strange_addresses_are_refused(server, url):
    server.describe(url=url)
    with pytest.raises(DatasetError, match="could not be had from OpenML"):
        load("emotions", progress=False)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data_set_description": {}}'])
def test_answers_that_are_no_openml(server, body):
    server.put("/api/v1/json/data/40589", body)
    with pytest.raises(DatasetError, match="OpenML server"):
        load("emotions", progress=False)


class TestSearchByName:
    LIST = "/api/v1/json/data/list/data_name/emotions/limit/100"

    @pytest.fixture(autouse=True)
    def _by_name(self, monkeypatch):
        from dataclasses import replace

        entry = replace(CATALOGUE["emotions"], openml_id=None, openml_names=("none", "emotions"))
        monkeypatch.setitem(CATALOGUE, "emotions", entry)

    def _found(self, did, n_rows, n_columns):
        quality = [
            {"name": "NumberOfInstances", "value": f"{n_rows}.0"},
            {"name": "NumberOfFeatures", "value": f"{n_columns}.0"},
        ]
        return {"did": did, "quality": quality}

    def test_takes_the_one_of_the_right_size(self, server):
        server.put("/api/v1/json/data/list/data_name/none/limit/100", b"{}", status=412)
        found = [self._found(3, 593, 80), self._found(7, 593, 78), self._found(9, 13, 78)]
        server.put(self.LIST, {"data": {"dataset": found}})
        server.describe(7)
        server.put(FILE, ARFF)
        assert load("emotions", progress=False).n_rows == 593

    def test_says_what_there_is(self, server):
        server.put("/api/v1/json/data/list/data_name/none/limit/100", b"{}", status=412)
        server.put(self.LIST, {"data": {"dataset": [self._found(3, 593, 80)]}})
        with pytest.raises(DatasetError, match=r"593 rows and 78 columns; it has 3 \(593"):
            load("emotions", progress=False)

    @pytest.mark.parametrize("answer", [[], {"data": 3}, {"data": {"dataset": [1]}}])
    def test_strange_lists(self, server, answer):
        server.put("/api/v1/json/data/list/data_name/none/limit/100", answer)
        with pytest.raises(DatasetError, match="list of data sets"):
            load("emotions", progress=False)


def test_unwritable_cache(server, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    server.describe()
    server.put(FILE, ARFF)
    with pytest.raises(DatasetError, match="set COLABEL_CACHE"):
        load("emotions", cache_home=blocked, progress=False)


def test_default_cache_follows_the_system(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert default_cache() == tmp_path / "colabel"
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "colabel"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_cache() == tmp_path / "local" / "colabel"


def test_public_address_is_encrypted():
    assert loading.OPENML.startswith("https://")
