"""Who is let in: loopback names, our own page, the cookie of a link that works once."""

import httpx
import pytest

from butfor.studio.security import Access
from studio_server import serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("studio"), body=50_000) as found:
        yield found


def test_without_a_cookie_nothing_is_told(served):
    for path in ("/", "/api/runs", "/api/offers", "/static/main.js", "/api/openapi.json"):
        answer = httpx.get(served.url + path)
        assert answer.status_code == 401
        assert "Open the link" in answer.text


def test_a_link_works_once_and_a_wrong_one_never(served):
    link = served.link()
    first = httpx.get(link)
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert httpx.get(link).status_code == 401
    wrong = httpx.get(f"{served.url}/?token=wrong")
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers


def test_a_wrong_cookie_is_no_cookie(served):
    for value in ("wrong", "", "ä"):
        answer = httpx.get(f"{served.url}/api/runs", headers={"cookie": f"{served.access.cookie}={value}".encode()})
        assert answer.status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"]
)
def test_another_host_is_refused_even_with_the_cookie(served, host):
    with served.client() as client:
        assert client.get("/api/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_origin_is_refused_even_with_the_cookie(served, origin):
    with served.client() as client:
        assert client.post("/api/tokens", headers={"origin": origin}).status_code == 403
        assert client.post("/api/tokens", headers={"origin": served.url}).status_code == 200


def test_what_another_page_makes_a_browser_ask_is_refused(served):
    with served.client() as client:
        for site in ("cross-site", "same-site"):
            assert client.get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
        assert client.get("/api/runs", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_every_answer_has_the_policy(served):
    with served.client() as client:
        for path in ("/", "/api/runs", "/static/main.js", "/no-such-page", "/api/runs/none"):
            policy = client.get(path).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
    assert "unsafe" not in httpx.get(served.url).headers["content-security-policy"]


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(served):
    with served.client() as client:
        assert client.post("/api/runs", content=b"x" * 60_000).status_code == 413
        chunks = (b"x" * 10_000 for _ in range(10))
        assert client.post("/api/runs", content=chunks).status_code in (400, 413, 422)
        assert client.get("/api/runs").status_code == 200


TRAVERSALS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..\\..\\etc\\passwd",
    "%00",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leaves_the_folder(served, path):
    secret = served.settings.folder.parent / "secret.json"
    secret.write_text('{"id": "secret"}')
    with served.client() as client:
        for place in (
            f"/static/{path}",
            f"/api/uploads/{path}/content",
            f"/api/runs/{path}/report",
            f"/api/runs/{path}/view",
            f"/api/runs/{path}/pictures/{path}",
            "/api/uploads/..%2f..%2fsecret/content",
        ):
            answer = client.get(place)
            assert answer.status_code in (404, 405, 422), place
            assert "root:" not in answer.text
            assert '"id"' not in answer.text


def test_old_links_are_forgotten_where_there_are_too_many():
    access = Access(1)
    first = access.new_token()
    newest = [access.new_token() for _ in range(100)][-1]
    assert not access.redeem(first)
    assert access.redeem(newest)
    assert not access.redeem(newest)


def test_the_interface_is_described(served):
    with served.client() as client:
        described = client.get("/api/openapi.json").json()
        assert {"/api/runs", "/api/uploads", "/api/runs/{number}/events", "/api/compare"} <= set(described["paths"])
        assert client.get("/docs").status_code == 404  # its page loads scripts from elsewhere
