# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chat client against a real server on the loopback that behaves and misbehaves."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
import time

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint, ask, events_of
from ansible_collections.tandem.spark.plugins.module_utils.http_exchange import get_status

PATIENCE_S = 0.3
TOLERANCE_S = 5  # a loaded machine, not the client


def asked(answer, timeout=30.0, max_tokens=64, **endpoint):
    with s.ChatServer(answer if callable(answer) else lambda _request, _stop: answer) as server:
        began = time.monotonic()
        reply = ask(
            Endpoint(server.url, "lab", **endpoint),
            "What is 17 x 23?",
            thinking=False,
            max_tokens=max_tokens,
            timeout=timeout,
        )
        assert time.monotonic() - began < timeout + TOLERANCE_S
        return reply, server


def test_the_request_is_deterministic_and_says_whether_to_think():
    _, server = asked(s.says("391"), api_key="secret")
    (request,) = server.requests
    assert request["chat_template_kwargs"] == {"thinking": False}
    assert (request["temperature"], request["max_tokens"], request["stream"]) == (0, 64, True)
    assert request["messages"] == [{"role": "user", "content": "What is 17 x 23?"}]
    assert b"POST /v1/chat/completions HTTP/1.1" in server.headers[0]
    assert b"Authorization: Bearer secret" in server.headers[0]


@pytest.mark.parametrize(
    "url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/chat/completions"]
)
def test_the_url_may_be_given_with_or_without_its_path(url):
    assert Endpoint(url, "lab").chat_url == "http://h:1/v1/chat/completions"


def test_the_api_key_is_not_in_the_endpoints_text():
    assert "secret" not in repr(Endpoint("http://h:1", "lab", api_key="secret"))


WHOLE = s.stream(s.chunk(reasoning="17 × 20 …"), s.chunk(content="It is "), s.chunk(content="391."), s.end())


@pytest.mark.parametrize(
    "answer",
    [
        s.response(WHOLE),
        s.until_closed(WHOLE),
        s.chunked(WHOLE),
        s.chunked(*(WHOLE[i : i + 7] for i in range(0, len(WHOLE), 7))),
        s.chunked(*(WHOLE[i : i + 1] for i in range(len(WHOLE)))),
        s.response(WHOLE.replace(b"\n", b"\r\n")),
        s.response(WHOLE.replace(b"data: ", b"data:")),
        s.response(b": keep-alive\n\n" + WHOLE.replace(b"\n\n", b"\n\n: ping\n\nevent: message\nid: 1\n\n")),
        s.response(WHOLE.replace(b'"reasoning"', b'"reasoning_content"')),
        s.chunked(WHOLE.replace(b"data: [DONE]\n\n", b""), last=False),
        s.response(WHOLE[:-2]),
        lambda _request, _stop: (WHOLE_PIECE for WHOLE_PIECE in (s.until_closed(), WHOLE[:100], WHOLE[100:])),
    ],
)
def test_a_whole_stream_is_put_together(answer):
    reply, _ = asked(answer)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("It is 391.", "17 × 20 …", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (16, 6)
    assert reply.ttft_s > 0
    assert reply.fault is None


def test_tokens_are_counted_by_usage_alone():
    events = [s.event(s.chunk(content="a b c d e")), s.event(s.end()), s.event("[DONE]")]
    reply, _ = asked(s.response(b"".join(events)))
    assert (reply.completion_tokens, reply.tokens_per_s) == (None, None)


def test_a_server_that_does_not_stream_is_understood():
    body = {
        "choices": [{"message": {"content": "391", "reasoning": None}, "finish_reason": "stop"}],
        "usage": s.USAGE,
    }
    reply, _ = asked(s.response(json.dumps(body).encode(), kind="application/json"))
    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("391", "stop", 6)


def error(status, body):
    return s.response(json.dumps(body).encode(), status, "application/json")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            error("401 Unauthorized", {"error": "Unauthorized"}),
            "HTTP 401 Unauthorized (is api_key right?): Unauthorized",
        ),
        (
            error("404 Not Found", {"error": {"message": "The model `x` does not exist."}}),
            "The model `x` does not exist",
        ),
        (error("404 Not Found", {"detail": "Not Found"}), "HTTP 404 Not Found (are url and model right?)"),
        (error("400 Bad Request", {"error": {"message": "1 validation error"}}), "1 validation error"),
        (
            error("500 Internal Server Error", {"error": {"message": "EngineCore encountered an issue."}}),
            "EngineCore",
        ),
        (s.response(b"<html>gateway</html>", "502 Bad Gateway", "text/html"), "HTTP 502 Bad Gateway: <html>"),
        (s.response(b"", "302 Found"), "HTTP 302"),
        (s.response(b"{nope", kind="application/json"), "invalid JSON"),
        (s.response(b"[1]", kind="application/json"), "no JSON object"),
        (s.response(b"[" * 100_000, kind="application/json"), "invalid JSON"),
        (s.response(s.event("{nope")), "invalid JSON"),
        (s.response(s.event({"choices": [3]})), "no list of objects"),
        (s.response(s.event({"choices": [{"delta": "text"}]})), "no object"),
        (s.response(s.event({"error": {"message": "engine died"}})), "engine died"),
        (s.response(b"welcome\n"), "no OpenAI endpoint"),
        (s.response(b""), "no OpenAI endpoint"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "BadStatusLine"),
        (b"", "RemoteDisconnected"),
        (s.response(b"", size=100), "cut in the middle"),
    ],
)
def test_what_is_no_answer_is_unreached_and_says_why(answer, said):
    reply, _ = asked(answer)
    assert said in reply.fault
    assert not reply.reached


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (s.response(s.event(s.chunk(content="It is")), size=10_000), "cut in the middle"),
        (s.chunked(s.event(s.chunk(content="It is")), last=False), "cut in the middle"),
        (s.until_closed(s.event(s.chunk(content="It is"))), "cut before the generation ended"),
        (
            s.response(s.event(s.chunk(content="It is")) + s.event("[DONE]")),
            "cut before the generation ended",
        ),
        (s.response(s.event(s.chunk(content="It is")) + s.event("{nope")), "invalid JSON"),
        (s.response(s.event(s.chunk(content="It is")) + s.event({"error": {"message": "died"}})), "died"),
    ],
)
def test_a_stream_that_breaks_off_keeps_what_came(answer, said):
    reply, _ = asked(answer)
    assert said in reply.fault
    assert (reply.text, reply.finish_reason, reply.reached) == ("It is", None, True)


@pytest.mark.parametrize(
    ("answer", "reached"),
    [
        (s.silent, False),
        (s.forever(b"H", 0.01, head=b"HTTP/1.1 200 OK\r\nX: "), False),
        (s.forever(b": keep-alive\n\n", 0.01), True),
        (s.forever(b"", 0.01), True),
        (s.forever(s.event(s.chunk(content="the ")), 0.01), True),
        (s.forever(b"1\r\n:\r\n", 0.01, head=s.chunked(last=False)), True),
        (s.forever(b"x", 0.01, head=b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nf"), False),
    ],
)
def test_a_server_that_never_ends_is_left_in_time(answer, reached):
    reply, _ = asked(answer, timeout=PATIENCE_S)
    assert reply.fault == "not finished within 0.3 s"
    assert (reply.finish_reason, reply.reached) == (None, reached)


@pytest.mark.parametrize(
    "block", [s.event(s.chunk(content="the ")), b"data: " + b"x" * 4096, b":\n\n" * 1000]
)
def test_an_endless_stream_costs_bounded_memory(block):
    reply, _ = asked(s.forever(block), max_tokens=8)
    assert "does not end" in reply.fault
    assert len(reply.text) < 100_000
    assert reply.finish_reason is None


def test_a_closed_port_is_unreached():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reply = ask(Endpoint(f"http://127.0.0.1:{port}", "lab"), "x", thinking=False, max_tokens=1, timeout=5)
    assert (reply.reached, reply.fault) == (False, "connection refused: nothing listens there")


@pytest.mark.parametrize(
    "url", ["", "lab:8888", "ftp://lab", "http://", "http://lab:99999", "http://[::1", "http://la b/"]
)
def test_a_bad_address_is_said_to_be_one(url):
    reply = ask(Endpoint(url, "lab"), "x", thinking=False, max_tokens=1, timeout=5)
    assert reply.fault and not reply.reached


def test_a_key_that_no_header_can_carry_is_not_shown():
    reply, _ = asked(s.says("391"), api_key="very\nsecret")
    assert "characters that HTTP does not carry" in reply.fault
    assert "secret" not in reply.fault


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server's TLS context with a certificate made on the spot."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lab")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path_factory.mktemp("tls") / "lab.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


@pytest.mark.parametrize("verify", [True, False])
def test_https_checks_the_certificate_unless_told_not_to(tls, verify):
    with s.ChatServer(lambda _request, _stop: s.says("391"), tls) as server:
        reply = ask(Endpoint(server.url, "lab", verify=verify), "x", thinking=False, max_tokens=1, timeout=30)
    assert reply.text == ("" if verify else "391")
    assert ("certificate not accepted" in (reply.fault or "")) is verify


def test_https_is_left_in_time_too(tls):
    with s.ChatServer(s.forever(b": x\n\n", 0.01), tls) as server:
        reply = ask(
            Endpoint(server.url, "lab", verify=False), "x", thinking=False, max_tokens=1, timeout=PATIENCE_S
        )
    assert reply.fault == "not finished within 0.3 s"


def test_an_event_may_have_several_data_lines():
    assert list(events_of([b"data: a\ndata: b\n\n: c\n\ndata: d"])) == ["a\nb", "d"]


@pytest.mark.parametrize(
    ("answer", "status"), [(s.response(b""), 200), (s.response(b"", "503 x"), 503), (b"", None)]
)
def test_a_status_is_asked_for(answer, status):
    with s.ChatServer(lambda _request, _stop: answer) as server:
        assert get_status(f"{server.url}/health", timeout=5) == status
