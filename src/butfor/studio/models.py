"""The models and samplers that the page offers: those of a file in the folder, and the demos; no others."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from butfor.image.region import Image
from butfor.streams import stream
from butfor.types import Floats, InputError, Ints
from butfor.untrusted import parse_json, read_bounded

Kind = Literal["table", "image", "text"]
CONFIG = ("studio.toml", "studio.json")
MOST_CONFIG = 1_000_000  # bytes
ADDRESSES = ("http://", "https://")
FILES = (".onnx", ".skops", ".pkl", ".pickle", ".joblib")


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
    """All that can be chosen."""

    models: tuple[Offer, ...]
    samplers: tuple[Offer, ...]

    def model(self, name: str, kind: str) -> Offer:
        return _named(self.models, name, kind, "model")

    def sampler(self, name: str, kind: str) -> Offer:
        return _named(self.samplers, name, kind, "sampler")


def _named(offers: Sequence[Offer], name: str, kind: str, what: str) -> Offer:
    own = [offer for offer in offers if offer.kind == kind]
    for offer in own:
        if offer.name == name:
            return offer
    known = ", ".join(offer.name for offer in own) or "none"
    raise InputError(f"{what} {name!r:.80} is not configured for {kind}; there are: {known}. See {CONFIG[0]}")


DEMO_MODELS = (
    Offer("Demo: tumours", "table", "demo:tumours", about="A logistic regression on breast-cancer measurements."),
    Offer("Demo: tissue", "image", "demo:tissue", about="Calls a picture atypical by its share of dark nuclei."),
    Offer("Demo: film reviews", "text", "small-sentiment", about="A small embedded network: does a review praise?"),
)
SAMPLERS = (
    Offer("auto", "table", "auto", about="Redraws columns given the others, as in the reference rows."),
    *(Offer(name, "table", name) for name in ("residual", "copula", "gaussian", "forest", "neighbours", "empirical")),
    Offer("donor", "image", "donor", about="Fills a region with pieces of the same picture that fit around it."),
    Offer("plain words", "text", "small-infiller", {"among": "plain"}, "Words as common in praise as in blame."),
    Offer("any word", "text", "small-infiller", about="Whatever the small embedded network expects there."),
)


def read_offers(folder: Path) -> Offers:
    """What studio.toml or studio.json of the folder names, before what is built in.

    >>> [offer.name for offer in read_offers(Path("no-such-folder")).models]
    ['Demo: tumours', 'Demo: tissue', 'Demo: film reviews']
    """
    found = [folder / name for name in CONFIG if (folder / name).is_file()]
    if len(found) > 1:
        raise InputError(f"{folder} has both {CONFIG[0]} and {CONFIG[1]}; keep one of them")
    if not found:
        return Offers(DEMO_MODELS, SAMPLERS)
    given = _parsed(found[0])
    unknown = set(given) - {"model", "sampler", "demos"}
    if unknown:
        raise InputError(f"{found[0]}: there is no {sorted(unknown)[0]!r}; use [[model]], [[sampler]] and demos")
    models, samplers = (_offers(given.get(what, []), what, found[0]) for what in ("model", "sampler"))
    return Offers((*models, *(DEMO_MODELS if given.get("demos", True) else ())), (*samplers, *SAMPLERS))


def _parsed(path: Path) -> dict[str, Any]:
    content = read_bounded(path, "the configuration", MOST_CONFIG)
    try:
        given = tomllib.loads(content.decode()) if path.suffix == ".toml" else parse_json(content)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise InputError(f"{path} must hold model and sampler entries, got {type(given).__name__}")
    return given


def _offers(entries: object, what: str, path: Path) -> list[Offer]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{path}: write each {what} as [[{what}]] with name, kind and {what}")
    found = [_offer(dict(entry), what, path) for entry in entries]
    twice = {(one.name, one.kind) for one in found if sum(o.name == one.name and o.kind == one.kind for o in found) > 1}
    if twice:
        raise InputError(f"{path}: {what} {min(twice)[0]!r} stands twice; give each its own name")
    return found


def _offer(entry: dict[str, Any], what: str, path: Path) -> Offer:
    values = {key: entry.pop(key, None) for key in ("name", "kind", what)}
    for key, value in values.items():
        if not isinstance(value, str) or not value:
            raise InputError(f'{path}: a {what} needs {key} = "...", got {value!r:.60}')
    if values["kind"] not in get_args(Kind):
        raise InputError(f"{path}: kind must be one of {', '.join(get_args(Kind))}, got {values['kind']!r:.60}")
    about = str(entry.pop("about", ""))
    spec = _relative(values[what] or "", path.parent)
    options = {key.replace("-", "_"): _relative_option(key, value, path.parent) for key, value in entry.items()}
    return Offer(values["name"] or "", values["kind"], spec, options, about)


def _relative(spec: str, folder: Path) -> str:
    """Paths of the file are relative to it; names and addresses stay."""
    file, colon, name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    is_file = bool(colon) or spec.lower().endswith(FILES) or (folder / spec).is_dir()
    if not is_file or spec.lower().startswith(ADDRESSES):
        return spec
    return str(folder / Path(file).expanduser()) + colon + name


def _relative_option(key: str, value: Any, folder: Path) -> Any:
    if isinstance(value, str) and key in ("classes", "tokenizer", "among") and (folder / value).exists():
        return str(folder / value)
    return value


TISSUE_SIZE = (280, 420)  # height, width
STROMA, NUCLEUS, DARK = (228, 176, 200), (164, 118, 178), (78, 40, 110)
MEASURED = [  # of the thirty columns those that tell different things
    *("worst radius", "worst texture", "worst smoothness", "worst concave points", "worst symmetry"),
    *("texture error", "smoothness error", "mean fractal dimension"),
]
CLUSTER = (300, 95)  # x, y of the middle of the atypical nuclei


def tissue(seed: int = 0) -> Image:
    """A made picture of stained tissue: pale nuclei all over, and one cluster of large dark ones.

    >>> tissue().shape
    (280, 420, 3)
    """
    rng = stream(seed, "studio tissue")
    height, width = TISSUE_SIZE
    rough = rng.normal(0, 1, (height // 7, width // 7))
    coarse = np.kron(rough, np.ones((7, 7)))
    image = np.array(STROMA) + 5 * coarse[:, :, None] + rng.normal(0, 3, (height, width, 1))
    for x, y in rng.uniform((0, 0), (width, height), (110, 2)):
        _nucleus(image, (x, y), rng.uniform(5, 8), NUCLEUS, rng)
    for x, y in rng.normal(CLUSTER, (24, 19), (16, 2)):
        _nucleus(image, (x, y), rng.uniform(7, 11), DARK, rng)
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)


def _nucleus(
    image: Floats, place: tuple[float, float], radius: float, colour: tuple[int, int, int], rng: np.random.Generator
) -> None:
    down, across = np.ogrid[: image.shape[0], : image.shape[1]]
    wide = rng.uniform(0.75, 1.25)
    inside = ((across - place[0]) / wide) ** 2 + ((down - place[1]) * wide) ** 2 < radius**2
    image[inside] = np.array(colour) + rng.normal(0, 5, (int(inside.sum()), 1))


@dataclass(frozen=True)
class TissueModel:
    """Two classes of a picture of tissue, by the share of dark violet pixels."""

    classes = ("atypical", "typical")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        share = np.array([_dark(image) for image in batch])
        atypical = 1 / (1 + np.exp(-(share - 0.012) * 250))
        return np.stack([atypical, 1 - atypical], axis=1)


def _dark(image: Image) -> float:
    red, green, blue = np.moveaxis(image.astype(np.int16), 2, 0)
    return float(((red < 120) & (green < 85) & (blue > green + 20)).mean())


def tumour_halves() -> tuple[Any, Any, Ints]:
    """Eight columns of scikit-learn's patients, their diagnoses, and 1 for those that the demo's model is fitted on."""
    from butfor.tabular.demo import patients

    rows, labels = patients()
    return rows[MEASURED], labels, stream(0, "studio tumours").permutation(len(rows)) % 2


def tumour_model() -> Any:
    """A logistic regression, fitted on one half of the patients."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, labels, fitted = tumour_halves()
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[fitted == 1], labels[fitted == 1])


def tumour_table() -> bytes:
    """The other half as CSV, with its diagnoses: the first 20 malignant patients, and all benign ones."""
    rows, labels, fitted = tumour_halves()
    half = rows[fitted == 0].assign(diagnosis=labels[fitted == 0])
    some = half.groupby("diagnosis").cumcount() < half.diagnosis.map({"malignant": 20, "benign": len(half)})
    return bytes(half[some].to_csv(index=False).encode())


def reviews() -> str:
    """Three of the embedded reviews of films, a line each."""
    found = json.loads((Path(__file__).parents[1] / "text" / "reviews.json").read_text(encoding="utf-8"))
    return "\n".join(list(found.values())[:3])


def tissue_png() -> bytes:
    """The picture as a file."""
    from PIL import Image as Pictures

    held = BytesIO()
    Pictures.fromarray(tissue()).save(held, "PNG")
    return held.getvalue()


MODELS: dict[str, Callable[[], Any]] = {"demo:tissue": TissueModel, "demo:tumours": tumour_model}


def demo_model(spec: str) -> Any:
    """The model of a name such as demo:tissue."""
    if spec not in MODELS:
        raise InputError(f"there is no demo model {spec!r}; there are {', '.join(MODELS)}")
    return MODELS[spec]()
