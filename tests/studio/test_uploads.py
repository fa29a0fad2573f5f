"""Files that people send: limits on size, type and pixels; memory that does not grow; names that are only shown."""

import os
import struct
import zlib
from io import BytesIO

import httpx
import pytest

from studio_server import serving

NAME = '"><img src=x onerror=alert(1)>/../../x.csv'


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("studio"), upload=3_000_000, stored=20_000_000) as found:
        yield found


@pytest.fixture
def client(served):
    with served.client() as found:
        yield found


def send(client, content, name="file"):
    return client.post("/api/uploads", params={"name": name}, content=content)


def files(served):
    return sorted(path.name for path in served.settings.uploads.iterdir()) if served.settings.uploads.exists() else []


def resident():
    with open(f"/proc/{os.getpid()}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_table_is_read_and_kept_by_number(served, client):
    answer = send(client, b"a,b,group\n1,x,c\n2,y,d\n3,z,d\n", NAME).json()
    assert answer["name"] == NAME
    assert answer["details"]["columns"] == ["a", "b", "group"]
    assert answer["details"]["rows"] == 3
    assert f"{answer['id']}.csv" in files(served)
    assert not [name for name in files(served) if "img" in name]
    assert {oct(path.stat().st_mode)[-3:] for path in served.settings.uploads.iterdir()} == {"600"}
    assert oct(served.settings.uploads.stat().st_mode)[-3:] == "700"
    rows = client.post(f"/api/uploads/{answer['id']}/rows", json={"reference_where": "group == 'c'"}).json()
    assert rows == {"rows": 3, "reference": 1, "explained": 2}
    wrong = client.post(f"/api/uploads/{answer['id']}/rows", json={"reference_where": "__import__('os')"})
    assert wrong.status_code == 422
    assert client.get(f"/api/uploads/{answer['id']}/content").status_code == 422  # only images are sent back


def test_more_than_the_limit_is_refused_while_it_comes_and_memory_stays(served, client):
    before, known = resident(), files(served)
    sent = 0

    def stream():
        nonlocal sent
        for _ in range(2_000):  # 2 GB, if anybody took it
            sent += 1_000_000
            yield b"\x89PNG\r\n\x1a\n" + bytes(999_992)

    assert refused_at_once(client, stream())
    assert sent < 200_000_000
    assert resident() - before < 100_000_000
    assert files(served) == known
    with served.client() as again:
        assert again.get("/api/runs").status_code == 200


def refused_at_once(client, content):
    """By an answer, or by a connection that is closed before everything is sent."""
    try:
        return send(client, content, "large.png").status_code == 413
    except httpx.TransportError:
        return True


def test_a_length_over_the_limit_is_refused_at_once(served, client):
    known = files(served)
    assert refused_at_once(client, bytes(3_000_001))
    assert files(served) == known


def bomb(side):
    """A PNG of side x side pixels in a few kilobytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = b"\0" + bytes(side // 8)
    packed = zlib.compressobj(9)
    content = b"".join(packed.compress(row) for _ in range(side)) + packed.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def test_a_decompression_bomb_is_refused_by_its_size_alone(served, client):
    content, known, before = bomb(40_000), files(served), resident()
    assert len(content) < 1_000_000
    answer = send(client, content, "bomb.png")
    assert answer.status_code == 422
    assert "bomb.png" in answer.json()["detail"]
    assert resident() - before < 50_000_000
    assert files(served) == known


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF" + bytes(50),
        b"<html><script>alert(1)</script>",
        b"<svg onload=alert(1)>",
        b"GIF89a" + bytes(9),
        b"a,b\n1\n",
    ],
    ids=["empty", "program", "page", "svg", "gif", "ragged"],
)
def test_what_is_no_table_and_no_image_is_refused(served, client, content):
    known = files(served)
    answer = send(client, content, "x.png")
    assert answer.status_code == 422
    assert str(served.settings.folder) not in answer.json()["detail"]
    assert files(served) == known


def test_a_broken_image_is_refused(client):
    from PIL import Image

    held = BytesIO()
    Image.new("RGB", (60, 40), "red").save(held, "PNG")
    assert send(client, held.getvalue()).json()["details"] == {"width": 60, "height": 40}
    assert send(client, held.getvalue()[:-40]).status_code == 422


def test_the_folder_of_uploads_has_a_limit(tmp_path):
    with serving(tmp_path, upload=3_000_000, stored=4_000) as found, found.client() as client:
        assert send(client, b"a\n" + b"1\n" * 1_000).status_code == 200
        answer = send(client, b"a\n" + b"1\n" * 1_000)
        assert answer.status_code == 413
        assert "full" in answer.json()["detail"]


def test_an_upload_that_breaks_off_leaves_nothing(served):
    import socket

    known, port = files(served), served.settings.port
    cookie = served.access.set_cookie().split(";")[0]
    lines = [
        "POST /api/uploads?name=x HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Cookie: {cookie}",
        "Content-Length: 1000",
    ]
    head = "\r\n".join([*lines, "", "abc"])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(head.encode())
    with served.client() as client:
        assert client.get("/api/runs").status_code == 200
        for _ in range(100):
            if files(served) == known:
                break
            client.get("/api/offers")
    assert files(served) == known
