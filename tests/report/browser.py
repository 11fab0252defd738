"""A real browser for tests, driven over a pipe (Chrome DevTools Protocol): nothing to install.

The protocol's messages are JSON objects that end in a NUL byte; the browser reads them from file
descriptor 3 and answers on 4.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0  # seconds, for a loaded machine


def find_browser() -> str | None:
    """Path of a browser that speaks the protocol, if there is one."""
    if sys.platform == "win32":
        return None  # pipes to file descriptors 3 and 4 work otherwise there
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless browser, in a profile of its own.

    Attributes
    ----------
    opened : list of str
        Addresses that a test opened.
    requests : list of str
        Addresses that were asked for.
    complaints : list of str
        Errors and warnings of the console, and uncaught exceptions.
    """

    def __init__(self, executable: str, profile: Path) -> None:
        self.opened: list[str] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._number, self._left = 0, b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def wire() -> None:
            # Out of the way first: 3 or 4 may be among the pipes' own numbers.
            one, two = os.dup2(to_read, 103), os.dup2(to_write, 104)
            os.dup2(one, 3)
            os.dup2(two, 4)

        self._process = subprocess.Popen(
            [executable, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,
            pass_fds=(3, 4),
        )
        os.close(to_read)
        os.close(to_write)
        self._session: str | None = None
        try:
            self._attach()
        except (RuntimeError, OSError):
            self.__exit__()
            raise

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        with contextlib.suppress(RuntimeError, OSError):
            self.call("Browser.close")  # and all its processes
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and note the events that come before its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            received = os.read(self._read, 1 << 20) if ready else b""
            if not received:
                raise RuntimeError("The browser does not answer.")
            self._left += received
        first, self._left = self._left.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(said["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(said["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(said["args"])[:500])
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                self.complaints.append(json.dumps(said["entry"])[:500])

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def show(self, width: int, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """Set the size of the window and what the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is there."""
        address = path.resolve().as_uri()
        self.opened.append(address)
        self.call("Page.navigate", url=address)
        end = time.monotonic() + _PATIENCE
        there = f"location.href === {json.dumps(address)}"
        ready = f"document.readyState === 'complete' && {there}"
        while not self.evaluate(ready):
            if time.monotonic() > end:
                raise RuntimeError(f"The browser does not finish {path}.")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press and release a key."""
        codes = {
            "Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39,
            "End": 35, "Home": 36,
        }  # fmt: skip
        number = codes.get(key) or ord(key.upper())
        about = {"key": key, "code": key, "windowsVirtualKeyCode": number}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll an element into view; return where its middle is then."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return x, y

    def point(self, selector: str) -> None:
        """Move the mouse onto an element."""
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Click an element with the mouse."""
        x, y = self.middle(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def picture(self, path: Path, whole: bool = True, **clip: float) -> None:
        """Save what is shown, or the whole page, as PNG."""
        options: dict[str, Any] = {"captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {**size, "x": 0, "y": 0, "scale": 1, **clip}
        found = self.call("Page.captureScreenshot", format="png", **options)
        path.write_bytes(base64.b64decode(found["data"]))

    def print_to(self, path: Path) -> None:
        """Print the page to a PDF file."""
        found = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(found["data"]))
