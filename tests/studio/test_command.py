"""`butfor studio` itself: it prints a link that opens it, refuses what it cannot do, ends at Ctrl-C."""

import re
import signal
import socket
import subprocess
import sys

import httpx

from butfor.cli import main


def test_the_link_opens_it_and_ctrl_c_ends_it(tmp_path):
    command = [sys.executable, "-m", "butfor.cli", "studio", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        link = None
        for line in started.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            if found:
                link = found[0]
                break
        with httpx.Client(timeout=60) as client:
            assert client.get(link).status_code == 200
            page = client.get(link.split("?")[0])
            assert "butfor" in page.text
            assert "server" not in page.headers
        started.send_signal(signal.SIGINT)
        assert started.wait(30) in (0, 130, -2)
        assert "Traceback" not in started.stderr.read()


def test_what_it_cannot_do_is_one_sentence(tmp_path, capsys):
    assert main(["studio", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["studio", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err
    (tmp_path / "studio.toml").write_text("[[model]]")
    assert main(["studio", str(tmp_path)]) == 2
    assert "needs name" in capsys.readouterr().err
