"""One studio: its folder, the models and samplers that its page offers, its limits; and the demo models."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from butfor.streams import stream
from butfor.types import Array, Floats, InputError, Ints
from butfor.untrusted import parse_json, read_bounded

MEGABYTE = 1_000_000
WORKER = (sys.executable, "-m", "butfor.studio.worker")
Kind = Literal["table", "image", "text", "context"]


@dataclass(frozen=True)
class Limits:
    """The most of everything that one server takes."""

    upload: int = 64 * MEGABYTE  # bytes of a file
    stored: int = 4_000 * MEGABYTE  # bytes of all uploads together
    body: int = 2 * MEGABYTE  # bytes of any other request
    pixels: int = 30_000_000  # of an image
    workers: int = 1  # runs at a time; others wait
    queued: int = 200  # runs that may wait


@dataclass(frozen=True)
class Offer:
    """A model or a sampler by the name that people see; `spec` is what --model or --sampler would be given."""

    name: str
    kind: Kind
    spec: str
    options: dict[str, Any] = field(default_factory=dict)  # options of the command line that go with it
    about: str = ""


@dataclass(frozen=True)
class Offers:
    """All that can be chosen: what stands in the configuration, and what is built in; nothing else."""

    models: tuple[Offer, ...]
    samplers: tuple[Offer, ...]

    def named(self, what: Literal["model", "sampler"], name: str, kind: str) -> Offer:
        offers = self.models if what == "model" else self.samplers
        known = {offer.name: offer for offer in reversed(offers) if offer.kind == kind}
        if name not in known:
            names = ", ".join(reversed(known)) or "none"
            raise InputError(f"{what} {name!r:.80} is not configured for {kind}; there are: {names}. See {CONFIG[0]}")
        return known[name]


@dataclass(frozen=True)
class StudioSettings:
    """Where a studio reads and writes; everything that it makes lies in or below `folder`."""

    folder: Path
    offers: Offers
    worker: tuple[str, ...] = WORKER  # a command; the path of a job is appended
    port: int = 8765
    limits: Limits = field(default_factory=Limits)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def uploads(self) -> Path:
        return self.folder / "uploads"

    @property
    def views(self) -> Path:
        """Folder of what pages are made of, by run: made anew from the result where it is missing."""
        return self.folder / ".studio"

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))


CONFIG = ("studio.toml", "studio.json")
DEMO_MODELS = (
    Offer("Demo: tumours", "table", "demo:tumours", about="A logistic regression on breast-cancer measurements."),
    Offer("Demo: tissue", "image", "demo:tissue", about="Calls a picture atypical by its share of dark nuclei."),
    Offer("Demo: film reviews", "text", "small-sentiment", about="A small embedded network: does a review praise?"),
    Offer("Demo: codes of offices", "context", "small-reader", about="A small embedded network that looks codes up."),
)
SAMPLERS = (
    Offer("auto", "table", "auto", about="Redraws columns given the others, as in the reference rows."),
    *(Offer(name, "table", name) for name in ("residual", "copula", "gaussian", "forest", "neighbours", "empirical")),
    Offer("donor", "image", "donor", about="Fills a region with pieces of the same picture that fit around it."),
    Offer("plain words", "text", "small-infiller", {"among": "plain"}, "Words as common in praise as in blame."),
    Offer("other passages", "context", "pool", about="The passages below, which might have stood there as well."),
    Offer("deletion", "context", "drop", about="The part is left out; nothing is promised of that."),
    Offer("any word", "text", "small-infiller", about="Whatever the small embedded network expects there."),
)


def read_offers(folder: Path) -> Offers:
    """Read what studio.toml or studio.json of the folder names, before what is built in.

    >>> [offer.name for offer in read_offers(Path("no-such-folder")).models]
    ['Demo: tumours', 'Demo: tissue', 'Demo: film reviews', 'Demo: codes of offices']
    """
    files = [folder / name for name in CONFIG if (folder / name).is_file()]
    if len(files) > 1:
        raise InputError(f"{folder} has both {CONFIG[0]} and {CONFIG[1]}; keep one of them")
    if not files:
        return Offers(DEMO_MODELS, SAMPLERS)
    path = files[0]
    content = read_bounded(path, "the configuration", MEGABYTE)
    try:
        given = tomllib.loads(content.decode()) if path.suffix == ".toml" else parse_json(content)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise InputError(f"{path} must hold model and sampler entries, got {type(given).__name__}")
    if unknown := set(given) - {"model", "sampler", "demos"}:
        raise InputError(f"{path}: there is no {sorted(unknown)[0]!r}; use [[model]], [[sampler]] and demos")
    models, samplers = (_offers(given.get(what, []), what, path) for what in ("model", "sampler"))
    return Offers((*models, *(DEMO_MODELS if given.get("demos", True) else ())), (*samplers, *SAMPLERS))


def _offers(entries: object, what: str, path: Path) -> list[Offer]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{path}: write each {what} as [[{what}]] with name, kind and {what}")
    offers: dict[tuple[str, str], Offer] = {}
    for entry in entries:
        offer = _offer(dict(entry), what, path)
        if offers.setdefault((offer.name, offer.kind), offer) is not offer:
            raise InputError(f"{path}: {what} {offer.name!r} stands twice; give each its own name")
    return list(offers.values())


def _offer(entry: dict[str, Any], what: str, path: Path) -> Offer:
    values = {key: entry.pop(key, None) for key in ("name", "kind", what)}
    for key, value in values.items():
        if not isinstance(value, str) or not value:
            raise InputError(f'{path}: a {what} needs {key} = "...", got {value!r:.60}')
    if values["kind"] not in get_args(Kind):
        raise InputError(f"{path}: kind must be one of {', '.join(get_args(Kind))}, got {values['kind']!r:.60}")
    spec, folder, about = values[what], path.parent, str(entry.pop("about", ""))
    file, colon, name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    endings = (".onnx", ".skops", ".pkl", ".pickle", ".joblib")
    is_file = bool(colon) or spec.lower().endswith(endings) or (folder / spec).is_dir()
    if is_file and not spec.lower().startswith(("http://", "https://")):  # names and addresses stay
        spec = str(folder / Path(file).expanduser()) + colon + name
    options = {}
    for key, value in entry.items():
        is_path = isinstance(value, str) and key in ("classes", "tokenizer", "among") and (folder / value).exists()
        options[key.replace("-", "_")] = str(folder / value) if is_path else value
    return Offer(values["name"], values["kind"], spec, options, about)


def demo_model(spec: str) -> Any:
    models: dict[str, Callable[[], Any]] = {"demo:tissue": TissueModel, "demo:tumours": tumour_model}
    if spec not in models:
        raise InputError(f"there is no demo model {spec!r}; there are {', '.join(models)}")
    return models[spec]()


STROMA, NUCLEUS, DARK = (228, 176, 200), (164, 118, 178), (78, 40, 110)  # red, green, blue
MEASURED = [  # of the thirty columns those that tell different things
    *("worst radius", "worst texture", "worst smoothness", "worst concave points", "worst symmetry"),
    *("texture error", "smoothness error", "mean fractal dimension"),
]


def tissue(seed: int = 0) -> Array:
    """Make a picture of stained tissue: pale nuclei all over, and one cluster of large dark ones.

    >>> tissue().shape
    (280, 420, 3)
    """
    rng = stream(seed, "studio tissue")
    height, width = 280, 420
    coarse = np.kron(rng.normal(0, 1, (height // 7, width // 7)), np.ones((7, 7)))
    image = np.array(STROMA) + 5 * coarse[:, :, None] + rng.normal(0, 3, (height, width, 1))
    down, across = np.ogrid[:height, :width]

    def add_nucleus(x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
        wide = rng.uniform(0.75, 1.25)
        inside = ((across - x) / wide) ** 2 + ((down - y) * wide) ** 2 < radius**2
        image[inside] = np.array(colour) + rng.normal(0, 5, (int(inside.sum()), 1))

    for x, y in rng.uniform((0, 0), (width, height), (110, 2)):
        add_nucleus(x, y, rng.uniform(5, 8), NUCLEUS)
    for x, y in rng.normal((300, 95), (24, 19), (16, 2)):
        add_nucleus(x, y, rng.uniform(7, 11), DARK)
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)


def tissue_png() -> bytes:
    from PIL import Image as Pictures

    file = BytesIO()
    Pictures.fromarray(tissue()).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class TissueModel:
    """Two classes of a picture of tissue, by the share of dark violet pixels."""

    classes = ("atypical", "typical")

    def __call__(self, batch: Sequence[Array]) -> Floats:
        shares = []
        for image in batch:
            red, green, blue = np.moveaxis(image.astype(np.int16), 2, 0)
            shares.append(((red < 120) & (green < 85) & (blue > green + 20)).mean())
        atypical = 1 / (1 + np.exp(-(np.array(shares) - 0.012) * 250))
        return np.stack([atypical, 1 - atypical], axis=1)


def tumour_halves() -> tuple[Any, Any, Ints]:
    """Return eight columns of scikit-learn's patients, their diagnoses, and 1 for those that the model is fitted on."""
    from butfor.tabular.demo import patients

    rows, labels = patients()
    return rows[MEASURED], labels, stream(0, "studio tumours").permutation(len(rows)) % 2


def tumour_model() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, labels, fitted = tumour_halves()
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[fitted == 1], labels[fitted == 1])


def tumour_table() -> bytes:
    """Return the other half as CSV, with diagnoses: the first 20 malignant patients, and all benign ones."""
    rows, labels, fitted = tumour_halves()
    half = rows[fitted == 0].assign(diagnosis=labels[fitted == 0])
    first = half.groupby("diagnosis").cumcount() < half.diagnosis.map({"malignant": 20, "benign": len(half)})
    return bytes(half[first].to_csv(index=False).encode())


def passages() -> dict[str, Any]:
    """Return an example prompt for the small reader, with passages that might have stood there."""
    given = json.loads((Path(__file__).parents[1] / "context" / "prompts.json").read_text(encoding="utf-8"))
    prompt = given["prompts"]["two that agree"]
    texts = [text for name, text in prompt["parts"].items() if name.startswith("passage")]
    return {"parts": texts, "question": prompt["question"], "pool": given["pool"][:40]}


def reviews() -> str:
    every = json.loads((Path(__file__).parents[1] / "text" / "reviews.json").read_text(encoding="utf-8"))
    return "\n".join(list(every.values())[:3])
