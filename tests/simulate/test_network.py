"""The paper's network: good enough, cached, the same again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from butfor.simulate import bed, network, tables
from butfor.simulate.network import sum_of_abs


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUTFOR_CACHE", str(cache))


def test_error_on_new_rows_and_a_whole_cache_file(cache: Path) -> None:
    made = bed("correlated-network", 0)
    beta = made.sampler.function.keywords["beta"]  # type: ignore[attr-defined]
    rows, _ = tables.mixture(100_000, 25, 0.3, beta, np.random.default_rng(1))
    assert np.mean((made.model(rows) - sum_of_abs(rows)) ** 2) <= 0.03
    assert [path.name for path in cache.iterdir()] == [f"network-{network.RECIPE}-correlated-0.npz"]


def test_the_cache_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    first = bed("correlated-network", 0)
    monkeypatch.setattr(network, "train", lambda *_: pytest.fail("trained again"))
    again = bed("correlated-network", 0)
    np.testing.assert_array_equal(first.model(first.inputs), again.model(first.inputs))
    assert first.model(first.inputs).shape == (100,)


def test_training_repeats_and_its_layers_are_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "STEPS", 40)
    monkeypatch.setattr(network, "LARGEST_ERROR", 1e9)
    one, same, other = (network.train("independent", seed, _draw) for seed in (0, 0, 1))
    assert [w.shape for w in one] == [(25, 100), (100,), (100, 100), (100,), (100, 1), (1,)]
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_a_network_that_learns_nothing_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "STEPS", 2)
    with pytest.raises(RuntimeError, match="'independent', seed 0, kept an error of"):
        network.train("independent", 0, _draw)


def test_gradient_against_finite_differences() -> None:
    rng = np.random.default_rng(0)
    flat, parts = network._start(rng)
    rows = rng.standard_normal((64, 25)).astype(np.float32)
    targets = sum_of_abs(rows).astype(np.float32)
    gradient = network._gradient(parts, rows, targets)

    def loss() -> float:
        weights = tuple(part.astype(np.float64) for part in parts)
        return float(np.mean((network.predict(rows.astype(np.float64), weights) - targets) ** 2))

    for place in (0, 1300, 2510, 7000, 12_605, 12_655, 12_700):
        kept, step = flat[place], np.float32(1e-3)
        flat[place] = kept + step
        up = loss()
        flat[place] = kept - step
        down = loss()
        flat[place] = kept
        assert gradient[place] == pytest.approx((up - down) / (2 * step), rel=0.02, abs=2e-3)


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_a_damaged_cache_is_trained_again(damage: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache / f"network-{network.RECIPE}-independent-77.npz"
    path.write_bytes(damage)
    made = tuple(np.ones(shape) for shape in network.SHAPES)
    monkeypatch.setattr(network, "train", lambda *_: made)
    assert network.trained("independent", 77, _draw) is made
    monkeypatch.undo()
    monkeypatch.setenv("BUTFOR_CACHE", str(cache))
    np.testing.assert_array_equal(network.trained("independent", 77, _draw)[0], made[0])
    path.unlink()


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("BUTFOR_CACHE", str(blocked))
    made = tuple(np.ones(shape) for shape in network.SHAPES)
    monkeypatch.setattr(network, "train", lambda *_: made)
    assert network.trained("independent", 0, _draw) is made


def test_default_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BUTFOR_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert network.cache_folder() == tmp_path / "butfor"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert network.cache_folder() == Path.home() / ".cache" / "butfor"


def _draw(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((count, 25))
