"""Fetching over HTTP: time limits, repeated attempts, and errors that say what to do.

Written with the standard library: a downloader such as pooch writes files whole and checks their
digests too, but leaves redirects that drop the encryption, answers without end and answers cut
short to its caller, and brings three packages more.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from colabel.datasets.dataset import DatasetError

Report = Callable[[int, int | None], None]
"""Called with the bytes received so far and, where the server says it, the bytes expected."""

TIMEOUT = 30.0  # seconds without an answer
PAUSES = (0.5, 1.0, 2.0)  # seconds before each further attempt
_BLOCK = 1 << 16
_LARGEST = 2 * 2**30  # bytes; far above every set of the catalogue
_LARGEST_JSON = 64 * 2**20


class _PassingError(Exception):
    """A fault that may be gone at the next attempt."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects over HTTP only, and never from an encrypted address to an open one."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_address(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_address(url: str, origin: str) -> None:
    """Refuse an address that is not HTTP, or that drops the encryption of its origin."""
    scheme, before = urllib.parse.urlsplit(url).scheme, urllib.parse.urlsplit(origin).scheme
    if scheme not in ("http", "https") or (before == "https" and scheme != "https"):
        raise DatasetError(
            f"{origin} points to {url}, which is not an address to fetch data from: use another "
            "server."
        )


def fetch_json(url: str) -> Any:
    """Fetch and parse a small JSON document."""

    def attempt(response: http.client.HTTPResponse) -> Any:
        data = response.read(_LARGEST_JSON)
        try:
            return json.loads(data)
        except ValueError as error:
            raise DatasetError(
                f"{url} did not answer with JSON: is this the address of an OpenML server?"
            ) from error

    return _repeat(url, attempt)


def fetch_file(url: str, target: Path, report: Report) -> None:
    """Fetch an address into a file that exists already (a temporary one), from its start."""

    def attempt(response: http.client.HTTPResponse) -> None:
        length = response.headers.get("Content-Length", "")
        expected = int(length) if length.isdecimal() else None
        received = 0
        with target.open("wb") as out:
            while block := response.read(_BLOCK):
                out.write(block)
                received += len(block)
                if received > _LARGEST:
                    raise DatasetError(
                        f"{url} sends more than {_LARGEST} bytes: it is no data set."
                    )
                report(received, expected)
        if expected is not None and received != expected:
            raise _PassingError(f"the answer ended after {received} of {expected} bytes")

    _repeat(url, attempt)


def _repeat(url: str, attempt: Callable[[http.client.HTTPResponse], Any]) -> Any:
    """Open an address and read it, again after a pause when the fault may pass."""
    opener = urllib.request.build_opener(_SafeRedirects())
    problem = ""
    for pause in (*PAUSES, None):
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "colabel"})
            with opener.open(request, timeout=TIMEOUT) as response:
                return attempt(response)
        except urllib.error.HTTPError as error:
            problem = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code < 500 and error.code != 429:
                break
        except (_PassingError, OSError, http.client.HTTPException) as error:
            # URLError, time-outs and refused connections are OSErrors.
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        if pause is not None:
            time.sleep(pause)
    raise DatasetError(f"{url} could not be fetched: {problem}.")
