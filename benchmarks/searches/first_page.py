"""How long the dashboard takes to show a large study in a browser.

    python -m benchmarks.searches.first_page DATABASE [--study many] [--picture PNG]

Starts `finder dashboard`, opens it in headless Chromium, and takes the time until the list of studies shows the study,
and until the study's page has its best trial and its figures on it. Results go to `results/first-page.jsonl`.
`benchmarks/searches/many_trials.py` makes such a database.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks import folders

RESULTS = folders.RESULTS / "first-page.jsonl"
FINDER = [sys.executable, "-c", "import sys; from finder.cli import main; sys.exit(main())"]
SECONDS = 300.0
LISTED = "document.body.innerText.includes({study!r})"
DRAWN = """document.body.innerText.includes('Best Trial') &&
    document.querySelectorAll('.js-plotly-plot .main-svg').length >= 8"""


class Browser:
    """Chromium, spoken to through a pipe (the DevTools protocol)."""

    def __init__(self, profile: str) -> None:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            sys.exit("Chromium is not installed (Debian: apt-get install chromium).")
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        words = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--window-size=1400,2200", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        move = f'exec 3<&{reads} 4>&{writes}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", move, "bash", *words], pass_fds=(reads, writes), stderr=subprocess.DEVNULL
        )
        self._n, self._rest, self._session = 0, b"", None
        page = next(each for each in self("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        self._n += 1
        message: dict[str, Any] = {"id": self._n, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                self._rest += os.read(self._in, 1 << 20)
            told, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(told)
            if answer.get("id") == self._n:
                result: dict[str, Any] = answer["result"]
                return result

    def seconds_until(self, url: str, condition: str) -> float:
        """Opens a page; how long until something is so in it."""
        began = time.perf_counter()
        self("Page.navigate", url=url)
        while time.perf_counter() - began < SECONDS:
            if self("Runtime.evaluate", expression=f"Boolean({condition})")["result"].get("value"):
                return time.perf_counter() - began
            time.sleep(0.05)
        sys.exit(f"{url} was not there after {SECONDS:g} s")

    def picture(self, path: str) -> None:
        """Takes a picture of the page."""
        time.sleep(1.0)
        Path(path).write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("--study", default="many")
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    began = time.perf_counter()
    words = [*FINDER, "dashboard", "--storage", f"sqlite:///{arguments.database}", "--port", "0"]
    dashboard = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = ""
        assert dashboard.stdout is not None
        while "http" not in address:
            address = dashboard.stdout.readline()
        address = next(word for word in address.split() if word.startswith("http")).rstrip(".")
        ready = time.perf_counter() - began
        began = time.perf_counter()
        trials = urllib.request.urlopen(address.replace("/dashboard", "/api/studies/1?after=0"), timeout=SECONDS).read()
        answered = time.perf_counter() - began
        with tempfile.TemporaryDirectory() as folder:
            browser = Browser(folder)
            try:
                listed = [browser.seconds_until(address, LISTED.format(study=arguments.study)) for _ in range(3)]
                drawn = [browser.seconds_until(f"{address}/studies/1", DRAWN) for _ in range(3)]
                if arguments.picture:
                    browser.picture(arguments.picture)
            finally:
                browser.close()
    finally:
        dashboard.terminate()
        dashboard.wait()
    row = {
        "trials": len(json.loads(trials)["trials"]),
        "ready_seconds": round(ready, 2),
        "answer_seconds": round(answered, 2),
        "answer_megabytes": round(len(trials) / 1e6, 2),
        "list_seconds": [round(each, 2) for each in listed],
        "study_seconds": [round(each, 2) for each in drawn],
    }
    print(json.dumps(row))
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
