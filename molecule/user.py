# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user and a load balancer of the pair, as a process at the controller's place; a line of JSON for all they saw.

    user.py API HEALTH [STREAMS]

{"what": "health", "at": ..., "status": 200, "state": "ready"} twice a second, and
{"what": "answer", "at": when it was asked, "ended": ..., "right": true, "why": ""} for each question.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request

TIME_OUT_S = 60
PAUSE_S = 1.0


def say(what: str, **told) -> None:
    print(json.dumps({"what": what, **told}), flush=True)


def watch(url: str) -> None:
    while True:
        at = time.time()
        try:
            with urllib.request.urlopen(url, timeout=3) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        except OSError:
            status, text = 0, b'{"state": "no answer"}'
        say("health", at=at, status=status, state=json.loads(text)["state"])
        time.sleep(max(0.0, at + 0.5 - time.time()))


def ask(api: str) -> None:
    while True:
        first, second = random.randint(10, 99), random.randint(10, 99)
        body = {
            "model": "deepseek-v4-flash",
            "messages": [{"role": "user", "content": f"What is {first} x {second}?"}],
            "temperature": 0,
            "max_tokens": 32,
            "chat_template_kwargs": {"thinking": False},
        }
        request = urllib.request.Request(
            f"{api}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        at, lost, said = time.time(), False, ""
        try:
            with urllib.request.urlopen(request, timeout=TIME_OUT_S) as response:
                said = json.load(response)["choices"][0]["message"]["content"] or ""
        except (OSError, ValueError, LookupError) as error:
            lost, said = True, f"{type(error).__name__}: {error}"
        right = not lost and str(first * second) in re.findall(r"\d+", said.replace(",", ""))
        say("answer", at=at, ended=time.time(), right=right, lost=lost, said=said[:80])
        time.sleep(PAUSE_S)


def main() -> None:
    api, health, streams = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["1"])[0])
    for _stream in range(streams):
        threading.Thread(target=ask, args=(api,), daemon=True).start()
    watch(health)


if __name__ == "__main__":
    main()
