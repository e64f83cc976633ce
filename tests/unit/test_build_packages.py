# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA repository and the tools of a build: never a driver, never an unknown key, never beside somebody's own."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import build_packages, cuda_repository, toolchain
from ansible_collections.tandem.spark.plugins.module_utils.apt_transaction import Step
from ansible_collections.tandem.spark.plugins.module_utils.build_packages import Tools, Wish
from ansible_collections.tandem.spark.plugins.module_utils.cuda_repository import Repository
from ansible_collections.tandem.spark.plugins.module_utils.debian_packages import Package
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError
from ansible_collections.tandem.spark.plugins.module_utils.openpgp_key import KeyFormatError, fingerprint
from hypothesis import given
from hypothesis import strategies as st

# Made for this test by gpg, which also told its fingerprint.
KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaw3p4BYJKwYBBAHaRw8BAQdADmdK9O+f+WESToi54y72mJP5gJgiaPT72oEs
XwS4hHK0GExhYiBDVURBIDxsYWJAbG9jYWxob3N0PoiQBBMWCAA4FiEE7aOpe3Wo
dT91CI1zkMwT/ngG7I8FAmsN6eACGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AA
CgkQkMwT/ngG7I8d1AD+Jg3ptyJOJ1ACqRnV5l8pH2kUMDN/9aMDKTbZJXOOVVYA
/Asimd0ktmPso76zKpb+i5L/dAnhFnvf/jArbufdpqUO
=kwuR
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "EDA3A97B75A8753F75088D7390CC13FE7806EC8F"
PLAIN = base64.b64decode("".join(KEY.splitlines()[2:7]))
HELD = Package("lab-tool", "1.0", "hi")


def test_the_fingerprint_is_that_of_gpg():
    assert fingerprint(KEY.encode()) == fingerprint(PLAIN) == FINGERPRINT
    assert (
        fingerprint(KEY.replace("\n\n", "\nComment: x\n\n", 1).replace("\n", "\r\n").encode()) == FINGERPRINT
    )
    changed = bytearray(PLAIN)
    changed[20] ^= 1
    assert fingerprint(bytes(changed)) != FINGERPRINT


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut off"),
        (b"<html>404</html>", "no OpenPGP key"),
        (PLAIN[:20], "cut off"),
        (b"\xb4\x03abc", "a packet of kind 13"),
        (b"\x98\x03\x03ab", "no key of version 4"),
        (b"\x9b\x03abc", "has no length"),
        (b"\xc6\xe1abc", "comes in parts"),
        (b"\xc6", "cut off"),
        (KEY.replace("mDME", "m!ME").encode(), "armour is damaged"),
    ],
)
def test_what_is_no_key_is_said(content, said):
    with pytest.raises(KeyFormatError, match=said):
        fingerprint(content)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_key_or_none(content):
    try:
        assert len(fingerprint(content)) == 40
    except KeyFormatError:
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A node without root's rights: a folder, and commands that are only written down."""
    mirror, root = tmp_path / "mirror", tmp_path / "root"
    for folder in (mirror, root / "etc/apt/sources.list.d", root / "var/lib/dpkg"):
        folder.mkdir(parents=True)
    (mirror / "key.pub").write_text(KEY)
    monkeypatch.setattr(toolchain, "RUST_HOME", str(root / "rust"))
    monkeypatch.setattr(build_packages.files, "_owner_ids", lambda wanted: (-1, -1))

    class Site(Tools):
        ran: list[list[str]] = []
        simulated = ""

        def _run(self, argv, timeout_s=60):
            self.ran.append(list(argv))
            return self.simulated if "--simulate" in argv else ""

        def _in_unit(self, argv):
            self.ran.append(list(argv))

        def wait_for_apt(self):
            pass

        def installed(self, *names):
            rows = [f"Package: {name}\nStatus: install ok installed\nVersion: 1\n" for name in names]
            (root / "var/lib/dpkg/status").write_text("\n".join(rows))

        def file(self, path):
            place = root / path[1:]
            return place.read_text() if place.exists() else None

    made = Site(str(root))
    made.ran, made.root = [], root
    made.repository = Repository(f"{mirror.as_uri()}/", "key.pub", FINGERPRINT)
    return made


def wish(site, **told):
    values = {
        "repository": site.repository,
        "packages": ["cuda-toolkit-13-2", "g++-13"],
        "rust": None,
        "rust_server": None,
        "machine": "aarch64",
        **told,
    }
    return Wish(**values)


TOOLKIT = "Inst cuda-toolkit-13-2 (13.2.0-1 NVIDIA CUDA [arm64])\nInst g++-13 (13.3 Ubuntu [arm64])\n"


def bring(site, wanted):
    lack = site.lacks(wanted)
    site.bring(wanted, lack)
    return lack


def test_a_node_without_anything(site):
    site.simulated = TOOLKIT
    lack = bring(site, wish(site))
    assert lack.packages == ("cuda-toolkit-13-2", "g++-13") and len(lack.files) == 3
    assert site.file(cuda_repository.KEYRING) == KEY
    assert f"URIs: {site.repository.uri}\nSuites: /\nSigned-By: " in site.file(cuda_repository.SOURCES)
    pins = site.file(cuda_repository.PREFERENCES)
    assert "Pin: release l=NVIDIA CUDA\nPin-Priority: -1" in pins
    assert {"cuda-drivers*", "nvidia-driver-*", "libnvidia-*"} <= set(pins.split())
    assert [words[:2] for words in site.ran] == [
        ["apt-get", "--quiet"],
        ["apt-get", "--simulate"],
        ["apt-get", "--yes"],
    ]
    assert site.ran[-1][-3:] == ["install", "cuda-toolkit-13-2", "g++-13"]
    assert not {"--allow-downgrades", "--allow-change-held-packages"} & set(site.ran[-1])
    site.installed("cuda-toolkit-13-2", "g++-13")
    assert not site.lacks(wish(site)), "a second run has nothing to do"
    assert site.file("/var/lib/tandem/packages/g++-13") == "", "uninstall takes them away again"


@pytest.mark.parametrize(
    ("simulated", "said"),
    [
        ("Inst nvidia-driver-595-open (595.84 NVIDIA CUDA [arm64])", "install nvidia-driver-595-open 595.84"),
        (
            "Inst nvidia-utils-580 [580.142] (595.84 NVIDIA [arm64])",
            "upgrade nvidia-utils-580 595.84, of driver",
        ),
        ("Inst cuda-drivers (595.84 NVIDIA CUDA [arm64])", "cuda-drivers"),
        ("Inst linux-image-nvidia-hwe-24.04 [1] (2 Ubuntu [arm64])", "linux-image-nvidia-hwe-24.04"),
        ("Remv g++-12 [12]", "apt would remove g++-12"),
        ("Inst libc6 [2.40] (2.39 Ubuntu [arm64])", "apt would downgrade libc6"),
        ("Inst lab-tool [1.0] (2.0 lab [arm64])", "lab-tool, which somebody holds"),
    ],
)
def test_more_than_tools_is_refused(site, simulated, said):
    site.simulated = f"{TOOLKIT}{simulated}\n"
    site.packages = lambda: {"lab-tool": HELD}
    with pytest.raises(FindingError) as error:
        bring(site, wish(site))
    assert error.value.finding.id == "build.packages.moves" and said in error.value.finding.summary
    assert not any("--yes" in words and "--simulate" not in words for words in site.ran)


def test_what_belongs_to_a_toolkit_is_no_driver():
    names = [
        "cuda-nvcc-13-2",
        "libnvjitlink-13-2",
        "nsight-compute-2026.1",
        "nvidia-fs",
        "libnvidia-container1",
    ]
    assert cuda_repository.moves([Step(name, "", "1") for name in names], {}) == []


def test_another_key_is_never_believed(site):
    wanted = wish(site, repository=Repository(site.repository.uri, "key.pub", "0" * 40))
    with pytest.raises(FindingError) as error:
        bring(site, wanted)
    assert error.value.finding.id == "build.repository.key" and FINGERPRINT in error.value.finding.summary
    assert site.file(cuda_repository.SOURCES) is None and site.ran == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [("absent.pub", "build.repository.unreachable"), ("http://", "build.repository.unreachable")],
)
def test_a_key_that_is_not_there(site, key, expected):
    with pytest.raises(FindingError) as error:
        bring(site, wish(site, repository=Repository(site.repository.uri, key, FINGERPRINT)))
    assert error.value.finding.id == expected


@pytest.mark.parametrize("damaged", [b"", b"<html>", PLAIN[:30]])
def test_a_key_that_was_damaged_is_brought_anew(site, damaged):
    site.simulated = TOOLKIT
    bring(site, wish(site))
    (site.root / cuda_repository.KEYRING[1:]).write_bytes(damaged)
    assert [path for path, *_texts in site.lacks(wish(site)).files] == [cuda_repository.KEYRING]
    bring(site, wish(site))
    assert site.file(cuda_repository.KEYRING) == KEY


OWN = {
    "cuda.list": "deb [signed-by=/usr/share/keyrings/cuda.gpg arch=arm64] {uri} /\n",
    "dgx.list": "# a comment\ndeb {bare} /\n",
    "cuda.sources": "Types: deb\nURIs: {uri}\nSuites: /\n",
    "many.sources": "Types: deb\nURIs: https://example.org/a\n {uri}\nSuites: /\n",
}


@pytest.mark.parametrize("name", OWN)
def test_a_repository_that_is_set_up_already_is_left_so(site, name):
    text = OWN[name].format(uri=site.repository.uri, bare=site.repository.uri.rstrip("/"))
    (site.root / "etc/apt/sources.list.d" / name).write_text(text)
    site.simulated = TOOLKIT
    lack = bring(site, wish(site))
    assert lack.others == (f"/etc/apt/sources.list.d/{name}",)
    assert site.file(cuda_repository.SOURCES) is None and site.file(cuda_repository.KEYRING) is None
    assert "Pin-Priority: -1" in site.file(cuda_repository.PREFERENCES)


@pytest.mark.parametrize(
    "text",
    [
        "# deb {uri} /\n",
        "deb https://example.org/ubuntu noble main\n",
        "Types: deb\nURIs: {uri}\nSuites: /\nEnabled: no\n",
        "Types: deb\nURIs: {uri}more\nSuites: /\n",
    ],
)
def test_others_repositories_are_not_it(site, text):
    (site.root / "etc/apt/sources.list").write_text(text.format(uri=site.repository.uri))
    assert site.lacks(wish(site)).others == ()


def test_ours_goes_where_somebody_sets_it_up_too(site):
    """apt refuses to work with both."""
    site.simulated = TOOLKIT
    bring(site, wish(site))
    (site.root / "etc/apt/sources.list.d/cuda.list").write_text(f"deb {site.repository.uri} /\n")
    bring(site, wish(site))
    assert site.file(cuda_repository.SOURCES) is None and site.file(cuda_repository.KEYRING) is None


@pytest.mark.parametrize(
    ("repository", "said"),
    [
        (Repository("ftp://x/", "k", "0" * 40), "uri is 'ftp://x/'"),
        (Repository("https://x/", "k", "0" * 39), "wanted are 40 digits"),
        (Repository("https://x/", "k", "g" * 40), "wanted are 40 digits"),
        (Repository("https://x/", "k", "A" * 40), None),
    ],
)
def test_a_repository_that_cannot_be_one(repository, said):
    found = cuda_repository.problems(repository)
    assert found == [] if said is None else said in found[0]


def test_rust_comes_once_and_says_why_it_does_not(site, monkeypatch):
    site.installed("cuda-toolkit-13-2", "g++-13", "rustup")
    wanted = wish(site, rust="1.95.0", rust_server="https://mirror.example.org")
    asked = []

    def ask(words, timeout_s, with_errors):
        asked.append(words)
        return build_packages.commands.Answer(1, "error: no release found for '1.95.0'")

    monkeypatch.setattr(build_packages.commands, "ask", ask)
    with pytest.raises(FindingError, match="no release found") as error:
        site.bring(wanted, build_packages.Lack((), (), "1.95.0", ()))
    assert error.value.finding.id == "build.rust.failed"
    assert "RUSTUP_DIST_SERVER=https://mirror.example.org" in asked[0]
    cargo = site.root / "rust/toolchains/1.95.0-aarch64-unknown-linux-gnu/bin/cargo"
    cargo.parent.mkdir(parents=True)
    cargo.touch(0o755)
    assert site.lacks(wanted).rust is None
    site.installed("cuda-toolkit-13-2", "g++-13")
    assert site.lacks(wanted).packages == ("rustup",)
