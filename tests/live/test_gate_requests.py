"""Requests to the gate: each is a plain order as a whole, or goes to the service with all its bytes."""

from __future__ import annotations

import itertools
import socket

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gates import CONFIG, Rig, order_body, request, rest, rig
from live_services import TOKENS
from riskroute.live.gate_process import gate_possible
from riskroute.live.gate_requests import MOST_HEAD
from riskroute.live.order_terms import prepared
from riskroute.live.wire import OrderIn

pytestmark = pytest.mark.skipif(not gate_possible(), reason="a gate needs Linux")

BODY = order_body()
PLAIN = request(BODY)

UNUSUAL = {
    "folded": request(BODY, b"X-A: 1\r\n 2"),
    "a length twice": request(BODY, b"Content-Length: %d" % len(BODY)),
    "another length": request(BODY, b"Content-Length: 3"),
    "lengths in a list": PLAIN.replace(b"Content-Length: ", b"Content-Length: 3, "),
    "a length with a sign": PLAIN.replace(b"Content-Length: ", b"Content-Length: +"),
    "a length in hexadecimal": PLAIN.replace(b"Content-Length: ", b"Content-Length: 0x"),
    "no length": b"".join(PLAIN.partition(b"Content-Length")[:1]) + b"X: y\r\n\r\n" + BODY,
    "chunked": request(BODY, b"Transfer-Encoding: chunked"),
    "chunked in small letters": request(BODY, b"transfer-encoding:chunked"),
    "expect": request(BODY, b"Expect: 100-continue"),
    "upgrade": request(BODY, b"Upgrade: websocket", b"Connection: Upgrade"),
    "close": request(BODY, b"Connection: close"),
    "connection in a list": request(BODY, b"Connection: keep-alive, close"),
    "connection twice": request(BODY, b"Connection: keep-alive", b"Connection: keep-alive"),
    "bare line feeds": PLAIN.replace(b"\r\n", b"\n"),
    "a bare line feed": PLAIN.replace(b"Host: desk\r\n", b"Host: desk\n"),
    "a bare carriage return": PLAIN.replace(b"Host: desk\r\n", b"Host: desk\r"),
    "the whole address": request(BODY, line=b"POST http://desk/orders HTTP/1.1"),
    "a query": request(BODY, line=b"POST /orders?a=1 HTTP/1.1"),
    "another path": request(BODY, line=b"POST /orders/ HTTP/1.1"),
    "an escaped path": request(BODY, line=b"POST /%6frders HTTP/1.1"),
    "HTTP/1.0": request(BODY, line=b"POST /orders HTTP/1.0"),
    "HTTP/1.2": request(BODY, line=b"POST /orders HTTP/1.2"),
    "small letters": request(BODY, line=b"post /orders HTTP/1.1"),
    "two spaces": request(BODY, line=b"POST  /orders HTTP/1.1"),
    "another method": request(BODY, line=b"PUT /orders HTTP/1.1"),
    "an empty line first": b"\r\n" + PLAIN,
    "a space before the colon": request(BODY, b"X-A : 1"),
    "a space before a length's colon": PLAIN.replace(b"Content-Length:", b"Content-Length :"),
    "no colon": request(BODY, b"X-A"),
    "no name": request(BODY, b": 1"),
    "a zero byte": request(BODY, b"X-A: \0"),
    "a byte above 127": request(BODY, b"X-A: \xe9"),
    "a long head": request(BODY, b"X-A: " + b"a" * MOST_HEAD),
    "a long body": request(order_body(features={f"f{number}": 0.5 for number in range(5000)})),
    "a symbol that nobody knows": PLAIN.replace(b"DEMO", b"NONE"),
    "a symbol of another partition": PLAIN.replace(b"DEMO", b"AWAY"),
    "a venue that nobody knows": request(order_body(quotes=[{"venue": "B", "at": 1}])),
    "another token": PLAIN.replace(TOKENS["trade"].encode(), b"x" * len(TOKENS["trade"])),
    "a token that may only look": request(BODY, token="read"),
    "no token": PLAIN.replace(b"Authorization", b"X-Authorization"),
    "another word": PLAIN.replace(b"Bearer", b"Basic"),
    "two tokens": request(BODY, b"Authorization: Bearer x"),
    "not JSON": request(b"{"),
    "no order": request(b"{}"),
    "a field twice": request(BODY[:-1] + b', "key": "two"}'),
    "a health check": b"GET /health HTTP/1.1\r\nHost: desk\r\n\r\n",
    "noise": bytes(range(256)),
}


def sent(one: Rig, client: socket.socket, data: bytes, cuts: list[int]) -> None:
    """Send data in pieces."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        client.sendall(data[begin:end])
        one.turn()


CUTS = st.lists(st.integers(0, 2**20), max_size=4)


@given(cuts=CUTS, follows=st.sampled_from([b"", b"G", PLAIN[:30], PLAIN]))
def test_a_plain_order_in_any_pieces_goes_to_the_service_once(cuts: list[int], follows: bytes) -> None:
    with rig() as one:
        client = one.client()
        sent(one, client, PLAIN + follows, cuts)
        [(number, order)] = one.asked()
        assert order == prepared(CONFIG.terms, OrderIn(key="one", symbol="DEMO", side="buy", quantity=5, deadline=9))
        assert one.handed_over() == []
        one.answer((number, 200, b"{}"))
        assert rest(client).endswith(b"\r\n\r\n{}")
        assert len(one.asked()) == (follows == PLAIN)


@pytest.mark.parametrize("name", UNUSUAL)
@given(cuts=CUTS)
@example(cuts=[])
def test_anything_unusual_goes_to_the_service_with_all_its_bytes(name: str, cuts: list[int]) -> None:
    with rig() as one:
        data = UNUSUAL[name] + b"GET / HTTP/1.1\r\n\r\n"
        sent(one, one.client(), data, cuts if len(data) < 4096 else [])
        [(connection, read)] = one.handed_over()
        assert read + rest(connection) == data
        assert one.asked() == []


@pytest.mark.parametrize(
    "begun",
    [
        b"X-A : 1\r\nX-B:",
        b"X-A: 1\r\n 2\r\n",
        b"X-A: 1\n",
        b"X-A: \0",
        b" ",
        b"\r\r",
        b"X A",
        b"Transfer-Encoding: chunked\r\nX",
        b"X-A: " + b"a" * MOST_HEAD,
    ],
)
def test_what_cannot_become_a_plain_order_does_not_wait_for_more(begun: bytes) -> None:
    with rig() as one:
        one.client().sendall(b"POST /orders HTTP/1.1\r\nHost: desk\r\n" + begun)
        assert [data.partition(b"desk\r\n")[2] for _, data in one.handed_over()] == [begun]


@pytest.mark.parametrize("begun", [b"", b"X", b"X-A:", b"X-A: 1 ", b"X-A: 1\r", b"X-A: 1\r\n", b"X-A: 1\r\n\r"])
def test_what_may_become_a_plain_order_waits_for_more(begun: bytes) -> None:
    with rig() as one:
        one.client().sendall(b"POST /orders HTTP/1.1\r\nHost: desk\r\n" + begun)
        assert not one.handed_over()


class Message:
    """What the parser of uvicorn reads in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.url = self.body = b""
        self.complete = 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


EDITS = st.lists(
    st.tuples(
        st.integers(0, len(PLAIN) - 1),
        st.sampled_from([0, 1, 2]),
        st.binary(min_size=0, max_size=2) | st.sampled_from([b"\r\n", b"\n", b" ", b":", b"\t", b"\r\n ", b"chunked"]),
    ),
    min_size=1,
    max_size=3,
)


@given(edits=EDITS, cuts=CUTS)
def test_whatever_the_gate_takes_is_for_the_parser_of_the_service_the_same_order(
    edits: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    data = PLAIN
    for place, removed, put in edits:
        data = data[:place] + put + data[place + removed :]
    with rig() as one:
        client = one.client()
        sent(one, client, data, cuts)
        asked, given_over = one.asked(), one.handed_over()
        if asked:
            [(_, order)] = asked
            head, _, body = data.partition(b"\r\n\r\n")
            read = Message(data[: len(head) + 4 + int(head.lower().partition(b"content-length:")[2].split()[0])])
            assert (read.complete, read.url, read.parser.get_method()) == (1, b"/orders", b"POST")
            assert read.parser.get_http_version() == "1.1"
            assert read.parser.should_keep_alive()
            assert body.startswith(read.body)
            assert f'"{order.order.key}"'.encode() in read.body or b"\\" in read.body
            assert given_over == []
        else:
            one.connections.stop()  # one that waits for more goes to the service too
            [(connection, begun)] = given_over or one.handed_over()
            assert begun + rest(connection) == data
