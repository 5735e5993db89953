"""Uploads and downloads on a real port: slow clients, cut connections, bounded memory."""

import asyncio
import hashlib
import http.client
import os
import resource
import time
from urllib.parse import urlsplit

import pytest

from appliance.plan import digest_of, shown

from ..cli.serving import served
from ..samples import opened


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


@pytest.fixture
def url(database):
    with served(database) as url:
        yield url


def request(url, method, path, body=None, kind="application/octet-stream", role="operator"):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {role}-secret", "Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def head(url, data, size):
    lines = (
        f"PUT /v1/blobs/{shown(digest_of(data))} HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        "Authorization: Bearer operator-secret",
        "Content-Type: application/octet-stream",
        f"Content-Length: {size}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


async def slow_put(url, data, seconds):
    """Send `data` in small pieces over `seconds`; the status."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(head(url, data, len(data)))
    pieces = 20
    step = len(data) // pieces + 1
    for n in range(pieces):
        writer.write(data[n * step : (n + 1) * step])
        await writer.drain()
        await asyncio.sleep(seconds / pieces)
    status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


def test_con_07_many_slow_uploads_hold_no_transaction(url, database):
    contents = [os.urandom(500_000) for _ in range(60)]
    waits = []

    async def small_writes():
        for n in range(10):
            data = b"small %d" % n
            began = time.monotonic()
            status, _ = await asyncio.to_thread(request, url, "PUT", f"/v1/blobs/{shown(digest_of(data))}", data)
            waits.append(time.monotonic() - began)
            assert status == 200
            await asyncio.sleep(0.2)

    async def everything():
        found = await asyncio.gather(*(slow_put(url, data, 2.5) for data in contents), small_writes())
        return found[:-1]

    assert asyncio.run(everything()) == [200] * 60
    assert max(waits) < 1
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM blob")) == 70


def test_con_05_uploads_cut_in_the_middle_leave_nothing_and_harm_no_other(url, database):
    data = os.urandom(900_000)

    async def cut(share):
        where = urlsplit(url)
        _, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(head(url, data, len(data)) + data[: int(len(data) * share)])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def everything():
        return await asyncio.gather(*(slow_put(url, data, 0.3) for _ in range(10)), *(cut(n / 10) for n in range(10)))

    assert asyncio.run(everything())[:10] == [200] * 10
    counts = database.read(lambda tx: [tx.value(f"SELECT count(*) FROM {table}") for table in ("blob", "large", "large_part")])
    assert counts == [1, 1, 1]
    assert request(url, "GET", f"/v1/blobs/{shown(digest_of(data))}", role="viewer") == (200, data)


def test_a_large_upload_and_download_take_bounded_memory(url, database):
    """The appliance runs in this process: the peak must not grow by anything like the size of the blob."""
    piece = os.urandom(1 << 20)
    count = 160
    hasher = hashlib.sha256()
    for n in range(count):
        hasher.update(bytes([n]) + piece[1:])
    path = f"/v1/blobs/{shown(hasher.digest())}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"Authorization": "Bearer operator-secret", "Content-Type": "application/octet-stream"}
    connection.request("PUT", path, (bytes([n]) + piece[1:] for n in range(count)), headers, encode_chunked=True)
    assert connection.getresponse().read()
    connection.request("GET", path, headers={"Authorization": "Bearer viewer-secret"})
    answer = connection.getresponse()
    again = hashlib.sha256()
    while chunk := answer.read(1 << 18):
        again.update(chunk)
    connection.close()
    assert again.digest() == hasher.digest()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 80, f"{grown} MiB"


def test_a_damaged_download_ends_the_connection_before_its_own_end(url, database):
    data = os.urandom(12 << 20)
    path = f"/v1/blobs/{shown(digest_of(data))}"
    request(url, "PUT", path, data)
    database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE n = 10"))
    with pytest.raises(http.client.IncompleteRead):
        request(url, "GET", path, role="viewer")


def test_ux_11_an_upload_over_the_limit_is_refused_before_it_is_sent(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.putrequest("PUT", f"/v1/blobs/{shown(b'0' * 32)}")
    for name, value in (
        ("Authorization", "Bearer operator-secret"),
        ("Content-Type", "application/octet-stream"),
        ("Content-Length", str((1 << 30) + 1)),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert b"limit of 1073741824 bytes" in answer.read()
    connection.close()
