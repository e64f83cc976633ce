# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is stripped of before others read it: all that tells whose machines these are, and no version."""

from __future__ import annotations

import json
import re
import string
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.plugin_utils.anonymise import (
    PUBLIC,
    Anonymiser,
    Names,
    names_in,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

NAMES = Names(
    hosts=("spark-a", "spark-b.lab.example.org", "192.168.50.11", "ab"),
    groups=("tandem", "acme-cluster"),
    users=("annlee", "ubuntu", "root"),
    addresses=("10.20.30.40",),
    secrets=("correct horse", "hunter22"),
)


def hidden(text: str, names: Names = NAMES) -> str:
    return Anonymiser(names).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spark-a and SPARK-B.lab.example.org, spark-a", "host-1 and host-2, host-1"),
        ("spark-a.home.arpa:8888", "host-1:8888"),
        ("backup_spark-a.img", "backup_host-1"),
        ("spark-ab sparks aspark-a", "spark-ab sparks aspark-a"),
        ("the-backup-of-spark-a-2026-final", "the-backup-of-host-1-2026-final"),
        ("ab", "host-1"),
        ("ab is short", "ab is short"),
        ("acme-cluster of annlee", "group-1 of user-1"),
        ("/home/annlee/x /home/bob/y /home/ubuntu", "/home/user-1/x /home/user-2/y /home/ubuntu"),
        ("user@1000.service getty@tty1.service", "user@1000.service getty@tty1.service"),
        ("ann.lee@example.org", "mail-1"),
        ("192.168.50.11/24 192.168.50.12 192.168.51.11", "198.18.0.0/24 198.18.0.1 198.18.1.0"),
        ("169.254.7.9 0.0.0.0 127.0.0.1 255.255.255.0", "169.254.0.0 0.0.0.0 127.0.0.1 255.255.255.0"),
        ("tcp:03:45:40:10.0.0.5", "tcp:03:45:40:198.18.0.0"),
        ("fe80::a1:2%eth0 fd12:3::9/64 ::1 ::", "fe80::1%eth0 2001:db8::2/64 ::1 ::"),
        (
            "0000:0000:0000:0000:0000:ffff:c0a8:320b is 192.168.50.11, ::ffff:192.168.50.11",
            "0000:0000:0000:0000:0000:ffff:c612:0000 is 198.18.0.0, ::ffff:198.18.0.0",
        ),
        ("02:4C:ab:00:00:01 02-4c-ab-00-00-01 enx024cab000001", "mac-1 mac-1 enxmac-1"),
        ("9803:9b03:006c:7fba 0x98039b03006c7fba", "guid-1 guid-1"),
        ("0x0000000000000004", "0x0000000000000004"),
        ("root=UUID=0e1d0e1d-0000-1111-2222-333344445555", "root=UUID=uuid-1"),
        ("6d1f3a0e4b7c4d55a1f2c3d4e5f60718", "hex-1"),
        ("serial number: 1650224000123 S/N=GB10X77", "serial number: serial-1 S/N=serial-2"),
        (
            "api_key=abc123 --api-key s3cr3t token: 'xyz'",
            "api_key=secret-1 --api-key secret-2 token: 'secret-3'",
        ),
        ("Authorization: Bearer abc.def", "Authorization: secret-1"),
        ("sent bearer abcdefgh", "sent secret-1"),
        ("hf_abcdEFGH1234 nvapi-abc_DEF-123456", "secret-1 secret-2"),
        ("https://me:pw@10.0.0.1/x", "https://user-1@198.18.0.0/x"),
        ("said correct horse, xhunter22x", "said secret-1, xsecret-2x"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "secret-1"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ x", "secret-1 x"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "secret-1"),
        ("q9ZxT3bLw8RkV2mN5pQs", "secret-1"),
    ],
)
def test_what_is_replaced(text, expected):
    assert hidden(text) == expected


VERSIONS = [
    "580.159.03",
    "580.142-0ubuntu0.24.04.1",
    "1:6.17.0-1014.14+1000",
    "6.17.0-1014-nvidia",
    "2.30.4",
    "28.45.4028",
    "5.36_0ACUM018",
    "nvidia-driver-580-open",
    "linux-modules-nvidia-580-open-nvidia-hwe-24.04",
    "0.33.0",
    "sm_121a",
    "DeepSeek-V4-Flash-0731-NVFP4-KV-2x-DGX-Spark",
    "kv_bytes_per_token=7632",
    "2.13.0+cpu",
    "Ubuntu 24.04.3 LTS",
    "0000:01:00.0",
    "0000000F:01:00.0",
    "rocep1s0f0",
    "enP2p1s0f0np0",
    "03:45:40",
    "prompt tokens: 512",
    "libcuda.so.580.142",
    "VLLM::EngineCore",
    "NVreg_PreserveVideoMemoryAllocations=1",
    "cudagraph_mode=FULL_AND_PIECEWISE",
    "0123456789abcdef",
    "v4-flash-next",
    "Mon 2026-11-30 03:45:33 UTC",
    "2026-11-30T03:48:51Z",
    "canada-quant-dsv4-flash-w4a16-fp8",
]  # one row a line


@pytest.mark.parametrize("text", VERSIONS)
def test_what_stays_whole(text):
    assert hidden(text) == text
    assert (
        Anonymiser(NAMES).tree({"evidence": f"found {text}, wanted more"})["evidence"]
        == f"found {text}, wanted more"
    )


def test_a_version_of_four_numbers_stays_where_its_key_says_so():
    names = Names(addresses=("9.9.9.9",))
    assert Anonymiser(names).tree({"version": "9.10.2.21", "driver": "9.9.9.9", "note": "9.10.2.21"}) == {
        "version": "9.10.2.21",
        "driver": "198.18.0.0",
        "note": "198.18.1.0",
    }


@pytest.mark.parametrize(
    "key", ["tandem_api_key", "password", "hf_token", "HF-TOKEN", "authorization", "client_secret"]
)
def test_a_secret_is_known_by_its_key(key):
    assert Anonymiser(Names()).tree({key: "plain", "other": ["plain"], "count": 3}) == {
        key: "secret-1",
        "other": ["plain"],
        "count": 3,
    }
    assert Anonymiser(Names()).tree({"prompt_tokens": 5, "serial": "ab", key: ""}) == {
        "prompt_tokens": 5,
        "serial": "serial-1",
        key: "",
    }


def test_a_finding_keeps_what_comes_from_the_catalogue_and_only_that():
    made = finding(
        "host.firmware.unequal", ["spark-a"], what="the machines", versions="spark-a 5.36"
    ).as_dict()
    told = Anonymiser(NAMES).tree(made)
    assert (told["id"], told["source"]) == (made["id"], made["source"])
    assert told["hosts"] == ["host-1"] and told["summary"].endswith("host-1 5.36")
    forged = {**made, "source": "spark-a"}
    assert Anonymiser(NAMES).tree(forged)["source"] == "host-1"


def test_names_are_taken_from_the_report_too():
    report = {
        "hostname": "gx10",
        "listeners": [{"user": "ann", "address": "10.1.1.1/24"}],
        "n": 1,
        "user": None,
    }
    assert set(names_in(report)) == {("hosts", "gx10"), ("users", "ann"), ("addresses", "10.1.1.1")}


def test_a_leak_is_told_by_its_kind():
    own = Anonymiser(NAMES)
    assert own.leaks("nothing of ubuntu and ab") == []
    assert own.leaks("Spark-A, correct horse, annlee") == ["host", "secret", "user"]


# Properties

QUICK = settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.generate))
WORD = st.text(string.ascii_lowercase + string.digits, min_size=4, max_size=12).filter(
    lambda w: w not in PUBLIC
)
IPV4 = (
    st.integers(1 << 24, (224 << 24) - 1)
    .map(lambda n: str(IPv4Address(n)))
    .filter(lambda a: not ip_address(a).is_loopback and not a.startswith("198.18"))
)  # one row a line
IPV6 = (
    st.integers(1 << 64, (1 << 128) - 1)
    .map(IPv6Address)
    .filter(lambda a: not a.is_multicast and a.ipv4_mapped is None and not str(a).startswith("2001:db8:"))
)  # one row a line
MAC = st.binary(min_size=6, max_size=6).filter(lambda b: len(set(b)) > 1).map(lambda b: b.hex(":"))
SECRET = st.text(string.ascii_letters + string.digits, min_size=12, max_size=40)
AROUND = st.sampled_from(
    [
        ("", ""),
        (" ", " "),
        ("(", ")"),
        ("[", "]:8888"),
        ('"', '"'),
        ("at ", ", then"),
        ("=", "/24"),
        ("\n", "\n"),
    ]
)


def structure(leaf: str) -> st.SearchStrategy:
    """The text anywhere in a report: a value, a key, deep in lists."""
    return st.sampled_from(
        [
            leaf,
            [leaf],
            {leaf: 1},
            {"a": [{"b": leaf}]},
            {"evidence": f"x {leaf} y"},
            {"version": leaf},
            [[leaf, 2], None],
        ]
    )


@QUICK
@given(st.data(), WORD, IPV4, IPV6, MAC, SECRET, AROUND)
def test_nothing_that_is_known_comes_through(data, word, ipv4, ipv6, mac, secret, around):
    before, after = around
    names = Names(hosts=(f"{word}-box",), users=(f"{word}u",), addresses=(ipv4,), secrets=(secret,))
    told = [f"{word}-box", f"{word}u", ipv4, str(ipv6), mac, secret]
    own = Anonymiser(names)
    for each in told:
        shape = data.draw(structure(f"{before}{each}{after}"))
        text = json.dumps(own.tree(shape))
        assert not re.search(rf"(?<![0-9A-Za-z.:]){re.escape(each)}(?![0-9A-Za-z.:])", text), (each, text)
    assert own.leaks(json.dumps(own.tree(told))) == []


@QUICK
@given(st.lists(st.one_of(IPV4, IPV6.map(str), MAC), min_size=2, max_size=12, unique=True))
def test_same_in_same_out_and_different_stays_different(words):
    own = Anonymiser(Names())
    first = [own.text(word) for word in words]
    assert first == [own.text(word) for word in words]
    assert len(set(first)) == len({str(word) for word in words})


@QUICK
@given(IPV4, IPV4)
def test_what_shares_a_subnet_still_does(one, other):
    own = Anonymiser(Names())
    new = [own.text(one), own.text(other)]
    same = one.rsplit(".", 1)[0] == other.rsplit(".", 1)[0]
    assert (new[0].rsplit(".", 1)[0] == new[1].rsplit(".", 1)[0]) is same
    assert (own.text(f"::ffff:{one}") == f"::ffff:{new[0]}") is True


@QUICK
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=60),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=12,
    )
)
def test_any_report_keeps_its_shape(value):
    """No text breaks it, numbers stay, and JSON comes out."""
    told = Anonymiser(NAMES).tree({"x": value})
    json.dumps(told)
    assert type(told["x"]) is type(value)
