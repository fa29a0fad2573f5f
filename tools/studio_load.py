"""Fifty clients at once, each starting a real run in one studio: what they get, and what the server holds.

PYTHONPATH=tests python tools/studio_load.py [clients]
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from studio_server import serving, wait

WORDS = "It was a dreadful and boring film of {number} minutes."


def main(clients: int = 50) -> None:
    """Start them, wait for all, print what came out."""
    ended: dict[int, bool] = {}
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), workers=2) as found:

        def one(number: int) -> None:
            text = {"name": f"of client {number}", "text": WORDS.format(number=number)}
            asked = {"kind": "text", "model": "Demo: film reviews", "sampler": "plain words", "texts": [text]}
            with found.client() as client:
                run = client.post("/api/runs", json=asked).json()["id"]
                state = wait(client, run, seconds=1800)
                told = client.get(f"/api/runs/{run}/report").text
                names = set(re.findall(r"of client (\d+)", told))  # the text itself may be marked word by word
                ended[number] = state["state"] == "done" and names == {str(number)}

        since, before = time.monotonic(), psutil.Process().memory_info().rss
        threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, grown = time.monotonic() - since, psutil.Process().memory_info().rss - before
    print(
        f"{sum(ended.values())} of {clients} clients got their own result and nobody else's, {took:.0f} s of the "
        f"clock, the server's process grew by {grown / 2**20:.0f} MB"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
