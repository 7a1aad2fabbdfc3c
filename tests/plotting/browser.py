"""Chromium without a window, driven over its own pipe with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
#: The frame of a program: it reads commands from descriptor 3 and answers on 4.
SHELL = 'exec "$0" "$@" 3<&{read} 4>&{write}'


class Browser:
    """A page in a Chromium of its own, which is closed at the end of a ``with`` block."""

    def __init__(self, width: int = 1280, height: int = 900, *, dark: bool = False, touch: bool = False) -> None:
        self.width, self.height, self.dark, self.touch = width, height, dark, touch
        self.errors: list[str] = []
        self._number, self._rest = 0, b""
        self._answers: dict[int, dict[str, Any]] = {}

    def __enter__(self) -> Browser:
        assert PROGRAM is not None
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        command = [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={self._home.name}", "about:blank"]
        frame = SHELL.format(read=read, write=write)
        self._process = subprocess.Popen(
            ["bash", "-c", frame, *command], pass_fds=(read, write), stderr=subprocess.DEVNULL, start_new_session=True
        )
        os.close(read)
        os.close(write)
        target = self._ask("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", {"features": scheme})
        self._ask("Emulation.setTouchEmulationEnabled", {"enabled": self.touch})
        self.resize(self.width, self.height)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._home.cleanup()

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": self.touch}
        self._ask("Emulation.setDeviceMetricsOverride", size)

    def open(self, path: Path, timeout: float = 60.0) -> float:
        """Open a file and return the milliseconds until its charts were drawn."""
        self.errors.clear()
        self._ask("Page.navigate", {"url": path.resolve().as_uri()})
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            drawn = self.run("document.documentElement?.dataset.drawn || ''")
            if drawn:
                return float(drawn)
            time.sleep(0.05)
        raise AssertionError(f"nothing was drawn in {timeout} s: {self.errors}")

    def run(self, script: str) -> Any:
        """Return what an expression is worth, awaited if it is a promise."""
        options = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self._ask("Runtime.evaluate", options)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def rest(self, frames: int = 3) -> None:
        """Wait until so many frames have been shown."""
        self.run(
            f"new Promise(r => {{ let n = {frames}; const f = () => n-- ? requestAnimationFrame(f) : r(1); f(); }})"
        )

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        press = {"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code}
        self._ask("Input.dispatchKeyEvent", press)
        self._ask("Input.dispatchKeyEvent", {"type": "keyUp", "key": key, "windowsVirtualKeyCode": code})
        self.rest()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move, press or release the mouse, or turn its wheel."""
        self._ask("Input.dispatchMouseEvent", {"type": f"mouse{kind}", "x": x, "y": y, **more})

    def swipe(self, x: float, y: float, right: float, down: float, steps: int = 12) -> None:
        """Move a finger."""
        self._ask("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for step in range(1, steps + 1):
            point = {"x": x + right * step / steps, "y": y + down * step / steps}
            self._ask("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
            self.rest(1)
        self._ask("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        self.rest(10)

    def click(self, x: float, y: float) -> None:
        for kind in ("Pressed", "Released"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.rest()

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what can be seen, or the whole page."""
        height = self.run("document.documentElement.scrollHeight") if whole else self.height
        if whole:
            self.resize(self.width, int(height))
            self.rest(20)
        data = self._ask("Page.captureScreenshot", {"format": "png"})["data"]
        path.write_bytes(base64.b64decode(data))
        self.resize(self.width, self.height)

    def _ask(self, method: str, options: dict[str, Any] | None = None, session: str | None = "") -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": options or {}}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60.0
        while self._number not in self._answers:
            self._receive(end - time.monotonic())
        answer = self._answers.pop(self._number)
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def _receive(self, timeout: float) -> None:
        ready, _, _ = select.select([self._read], [], [], max(timeout, 0.0))
        assert ready, "the browser does not answer"
        self._rest += os.read(self._read, 1 << 20)
        *messages, self._rest = self._rest.split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif message["method"] == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            elif message["method"] == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "warning"):
                self.errors.append(" ".join(str(item.get("value", item)) for item in message["params"]["args"]))
            elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            elif message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.startswith("http"):
                    self.errors.append(f"asks the network for {url}")
