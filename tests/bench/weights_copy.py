# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast weights go from rank to rank over a shaped link, beside the disk, the link itself and one rsync over ssh.

    sudo python3 tests/bench/weights_copy.py [MBIT_PER_RAIL]

Two network namespaces joined by two cables of that rate (default 800) stand for the ranks, in one run: a file is
written and flushed as often as a taker would (the disk), the weights are copied by our giver and taker over both
cables, and by rsync over ssh, which takes one. Wanted is 80 % of the slower of disk and link. Exits 1 where a byte
arrived wrongly; the figures are for people, since another machine's load is no fault of the code. Without root, ip, tc,
rsync or sshd it says what it could not measure. Everything that it makes is removed again.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections")]

from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_bring  # noqa: E402 - after what it needs is set
from ansible_collections.tandem.spark.plugins.modules.checkpoint_give import begin  # noqa: E402 - after what it needs is set

NAMES = "tandem-bench-a", "tandem-bench-b"
RAILS = [("10.213.1.1", "10.213.1.2"), ("10.213.2.1", "10.213.2.2")]
FILES, FILE_BYTES, LEAST, ROUNDS = 12, 48 << 20, 0.8, 2
SECRET = "b" * 64
TOTAL = FILES * FILE_BYTES
TAKE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tandem import checkpoint_bring, checkpoint_taker
doors = [(door.split(":")[0], int(door.split(":")[1])) for door in sys.argv[4:]]
peer = checkpoint_taker.Peer("a", doors, sys.argv[3].encode())
start = time.monotonic()
checkpoint_bring.bring(checkpoint_bring.Wish(Path(sys.argv[2]), peer), lambda line: None)
print(time.monotonic() - start)
"""


def run(*words: object, **more: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-500:]}")
    return done.stdout


@contextlib.contextmanager
def cables(mbit: int) -> Iterator[None]:
    """Both ends shaped, with the MTU of the rails."""
    remove()
    try:
        for name in NAMES:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for number, pair in enumerate(RAILS):
            run(
                "ip",
                "link",
                "add",
                f"tb{number}a",
                "netns",
                NAMES[0],
                "type",
                "veth",
                "peer",
                "name",
                f"tb{number}b",
                "netns",
                NAMES[1],
            )
            for name, end, address in zip(NAMES, "ab", pair, strict=True):
                device = f"tb{number}{end}"
                run("ip", "-n", name, "link", "set", device, "mtu", 9000, "up")
                run("ip", "-n", name, "address", "add", f"{address}/24", "dev", device)
                run(
                    "tc",
                    "-n",
                    name,
                    "qdisc",
                    "add",
                    "dev",
                    device,
                    "root",
                    "tbf",
                    "rate",
                    f"{mbit}mbit",
                    "burst",
                    "512kb",
                    "latency",
                    "50ms",
                )
        yield
    finally:
        remove()


def remove() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def to_disk(folder: pathlib.Path, content: bytes) -> None:
    for number in range(FILES):
        with (folder / f"disk-{number}").open("wb", buffering=0) as stream:
            stream.write(content)
            os.fdatasync(stream.fileno())


def give_and_take(source: pathlib.Path, target: pathlib.Path, library: pathlib.Path) -> float:
    """Seconds of our copy, from the taker's first connection to its last file in place."""
    wish = {
        "path": str(source),
        "addresses": [pair[0] for pair in RAILS],
        "secret": SECRET,
        "idle": 3.0,
        "total_timeout": 600.0,
        "library": str(library),
    }
    with inside(NAMES[0]):
        said = begin(wish)
    if "error" in said:
        raise RuntimeError(said["error"])
    doors = [f"{address}:{port}" for address, port in said["doors"]]
    return float(
        run("ip", "netns", "exec", NAMES[1], sys.executable, "-c", TAKE, library, target, SECRET, *doors)
    )


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """What is begun in the block lives in the namespace."""
    with open("/proc/self/ns/net") as home, open(f"/run/netns/{name}") as there:
        os.setns(there.fileno(), os.CLONE_NEWNET)
        try:
            yield
        finally:
            os.setns(home.fileno(), os.CLONE_NEWNET)


def rsync(source: pathlib.Path, target: pathlib.Path, scratch: pathlib.Path) -> float:
    """Seconds of one rsync over ssh, with keys that live for this run."""
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", scratch / name)
    settings = scratch / "sshd_config"
    settings.write_text(
        f"ListenAddress {RAILS[0][0]}\nPort 2222\nHostKey {scratch}/host\nAuthorizedKeysFile {scratch}/user.pub\n"
        f"PidFile none\nStrictModes no\nUsePAM no\n"
    )
    os.makedirs("/run/sshd", exist_ok=True)
    daemon = subprocess.Popen(
        ["ip", "netns", "exec", NAMES[0], shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(settings)],
        stderr=subprocess.DEVNULL,
    )
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
    shell = " ".join(["ssh", "-p", "2222", "-i", f"{scratch}/user", *(f"-o {each}" for each in options)])
    words = ["ip", "netns", "exec", NAMES[1], "rsync", "-a", "--exclude=.*", "-e", shell]
    try:
        for _try in range(20):
            time.sleep(0.2)
            if not subprocess.run(
                [*words, "--dry-run", f"{getpass.getuser()}@{RAILS[0][0]}:{source}/", f"{target}/"],
                capture_output=True,
            ).returncode:
                break
        return seconds(
            lambda: (run(*words, f"{getpass.getuser()}@{RAILS[0][0]}:{source}/", f"{target}/"), os.sync())
        )
    finally:
        daemon.terminate()
        daemon.wait()


def lacking() -> list[str]:
    tools = [name for name in ("ip", "tc", "rsync", "sshd", "ssh-keygen") if not shutil.which(name)]
    return ["root"] * (os.geteuid() != 0) + tools


def main() -> int:
    mbit = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    if missing := lacking():
        print(
            f"copy: not measured, since there is no {', '.join(missing)} (packages rsync, openssh-server, iproute2)"
        )
        return 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TANDEM_BENCH_DIR")) as folder, cables(mbit):
        return measured(pathlib.Path(folder), mbit)


def measured(root: pathlib.Path, mbit: int) -> int:
    source, library = root / "source", root / "lib"
    for each in (source, library, root / "disk"):
        each.mkdir()
    (library / "tandem").symlink_to(ROOT / "plugins/module_utils")
    for number in range(FILES):
        (source / f"model-{number:05}.safetensors").write_bytes(os.urandom(FILE_BYTES))
    checkpoint_bring.bring(checkpoint_bring.Wish(source), lambda _line: None)
    content = os.urandom(FILE_BYTES)
    disks, ours = [], []
    for number in range(ROUNDS):
        disks.append(seconds(lambda: to_disk(root / "disk", content)))
        ours.append(give_and_take(source, root / f"ours-{number}", library))
    theirs = rsync(source, root / "theirs", root)
    disk, link = TOTAL / min(disks), len(RAILS) * mbit * 1e6 / 8
    rate, limit = TOTAL / min(ours), min(disk, link)
    good = rate >= LEAST * limit
    print(
        f"copy: {FILES} files of {FILE_BYTES >> 20} MiB at {rate / 1e6:.0f} MB/s; the disk writes {disk / 1e6:.0f}, "
        f"two cables carry {link / 1e6:.0f}: {rate / limit:.0%} of the slower (at least {LEAST:.0%}, "
        f"{'ok' if good else 'too slow'}); one rsync over ssh {TOTAL / theirs / 1e6:.0f} MB/s, ours is "
        f"{theirs / min(ours):.1f} times that"
    )
    for number in range(FILES):
        name = f"model-{number:05}.safetensors"
        if (root / "ours-0" / name).read_bytes() != (source / name).read_bytes():
            print(f"copy: {name} arrived wrongly")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
