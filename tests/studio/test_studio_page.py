"""docs/studio.md: its script runs as it stands, its configuration is read."""

import re
import tomllib
from pathlib import Path

import pytest

from butfor.studio.settings import read_offers
from studio_server import serving

PAGE = (Path(__file__).parents[2] / "docs" / "studio.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_script_runs(tmp_path, capsys):
    pytest.importorskip("cv2", reason="the image extra is not installed")
    with serving(tmp_path) as found:
        code, replaced = re.subn(r"^link = .*$", f"link = {found.link()!r}", block("python"), flags=re.MULTILINE)
        assert replaced == 1
        names = {}
        exec(compile(code, "docs/studio.md", "exec"), names)
        names["studio"].close()
    assert names["states"][-1]["state"] == "done"
    assert capsys.readouterr().out.strip() == "{'dark nuclei': True, 'stroma': False}"
    assert "dark nuclei" in names["report"]


def test_the_configuration_is_read(tmp_path):
    (tmp_path / "studio.toml").write_text(block("toml"))
    offers = read_offers(tmp_path)
    names = [entry["name"] for entry in tomllib.loads(block("toml"))["model"]]
    assert [offer.name for offer in offers.models][: len(names)] == names
    assert offers.named("model", "EfficientNet", "image").options["preprocess"] == "imagenet-crop"
