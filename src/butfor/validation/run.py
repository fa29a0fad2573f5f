"""`butfor.validate`: the checks in their order, the pack as JSON and as a page for print, and its verification."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor._version import __version__
from butfor.evaluation.progress import Progress, reporting
from butfor.explain import modality
from butfor.inference.decisions import Decision
from butfor.load import load
from butfor.models.wrap import model_name
from butfor.report.write import RESULT, check_folder, filled
from butfor.results.io import write_files
from butfor.results.result import Result
from butfor.streams import stream
from butfor.tabular.splice import TableSampler, bind_model, bind_sampler, is_data
from butfor.tabular.table import Table, as_frame
from butfor.types import InputError, between, one_of, whole
from butfor.untrusted import read_bounded, read_json
from butfor.validation import checks
from butfor.validation.checks import SIZES, STAGES, Case, Section, status_of, untested

if TYPE_CHECKING:
    import pandas as pd

PAGE, FACTS, BILL, MANIFEST = "validation.html", "validation.json", "sbom.json", "manifest.json"
FORMAT = 1
LEAST_ROWS = 60  # of the reference, or groups of them
RANDOM = "The model does not give a row one output (section on the model), so what rests on its outputs was not tested."
BROKEN_CORE = "The statistics of this installation are wrong (self-test), so nothing else was tested."


@dataclass(frozen=True, eq=False)
class Validation:
    """The outcome of `butfor.validate`: requirements with their figures, and everything that goes into the pack.

    Parameters
    ----------
    facts : what `validation.json` holds.
    result : the run on the data whose seed is that of the pack; None where the model was not fit for one.
    """

    facts: dict[str, Any]
    result: Result | None

    def __repr__(self) -> str:
        return f"<butfor.Validation: {self.headline}>"

    @property
    def passed(self) -> bool:
        """Whether no requirement failed."""
        return bool(self.facts["verdict"] == "passed")

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        return headline(self.facts)

    @property
    def requirements(self) -> pd.DataFrame:
        """A DataFrame with a row per requirement: what is required, how it was tested, figure, limit, status, why."""
        import pandas as pd

        return pd.DataFrame(self.facts["requirements"]).set_index("id")

    def summary(self) -> str:
        """Return the verdict, what failed and what could not be tested."""
        lines = [f"Validation: {self.headline}"]
        failed = [one for one in self.facts["requirements"] if one["status"] == "failed"]
        for one in failed:
            figure = "" if one["figure"] is None else f" ({number(one['figure'])}, {bound(one)})"
            lines.append(f"failed {one['id']}: {one['required'].rstrip('.')}{figure}. {one['why'][:200]}".rstrip())
        lines += [f"not tested {', '.join(ids)}: {why}" for why, ids in _not_tested(self.facts).items()]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return what `validation.json` holds, without the hashes of the files beside it."""
        return _json(self.facts)

    def write(self, out: str | PathLike[str]) -> str:
        """Write the pack: a page for print, JSON, the result, a bill of materials and a manifest; all files or none.

        Parameters
        ----------
        out : path
            A folder; only its owner can read what is written.

        Returns
        -------
        str
            The SHA-256 of `validation.json`, which is on the signature page, too.
        """
        check_folder(Path(out))
        files = dict[str, bytes]()
        if self.result is not None:
            with tempfile.TemporaryDirectory() as folder:
                files[RESULT] = self.result.save(Path(folder) / RESULT).read_bytes()
        files[BILL] = _json(bill()).encode()
        files[FACTS] = _json({**self.facts, "files": _hashes(files)}).encode()
        seal = sha256(files[FACTS])
        files[PAGE] = render(json.loads(files[FACTS]), seal).encode()
        files[MANIFEST] = _json({"format": FORMAT, "files": _hashes(files)}).encode()
        write_files({name: partial(Path.write_bytes, data=data) for name, data in files.items()}, Path(out))
        return seal


def validate(
    model: object,
    X: object,
    reference: object,
    *,
    sampler: Callable[[Any], Any] | None = None,
    reference_groups: ArrayLike | None = None,
    target: Any = None,
    decide: Callable[[Any], Any] | None = None,
    alpha: float = 0.1,
    intended_use: str = "",
    limits: str = "",
    size: Literal["quick", "standard", "thorough"] = "standard",
    seed: int = 0,
    files: Mapping[str, str | PathLike[str]] | None = None,
    command: str = "",
    progress: bool | Callable[[Progress], None] | None = None,
) -> Validation:
    """Test whether butfor keeps its promises on this model, these rows and this reference; make a pack to be signed.

    The statistics are tested on known answers, the model on being a function of a row, the data on fitting the
    reference. On the reference itself follow size under the null (random splits), power at planted effects, coverage of
    intervals (parametric bootstrap), stability over seeds, the conditional control and memory of the reference.

    Parameters
    ----------
    model : callable or estimator
        As in `butfor.explain`.
    X : array-like or DataFrame
        Rows of the kind that will be explained.
    reference : array-like or DataFrame
        What they are compared with, at least 60 rows (groups).
    sampler : callable, optional
        Fits the sampler to rows of the reference, as `butfor.tabular.gaussian` does; None is `butfor.tabular.residual`.
    reference_groups : array-like, optional
        A label for each row of the reference, equal for rows that are not independent. Splits keep them together.
    target, decide, alpha : as in `butfor.explain`.
    intended_use, limits : str
        What the explanations are for, and what they must not be used for; printed in the pack.
    size : {"quick", "standard", "thorough"}
        How much is simulated: 12, 40 or 200 splits of the reference, and so on.
    seed : int, default=0
        The same seed gives the same figures.
    files : mapping of paths, optional
        Files whose SHA-256 goes into the pack, by what they are: model, data, reference.
    command : str, optional
        The command that repeats the validation; else the call is printed.
    progress : True for a bar on standard error, or a function that is called with a `butfor.Progress`.

    Returns
    -------
    Validation
        With `passed`, `requirements`, `summary()` and `write(folder)`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reference, rows = rng.normal(size=(150, 2)), rng.normal(size=(30, 2))
    >>> validation = validate(lambda rows: rows[:, 0] + rows[:, 1], rows, reference, size="quick")
    >>> validation.requirements.status["M-1"]
    'passed'
    """
    started = time.monotonic()
    one_of("size", size, tuple(SIZES))
    between("alpha", alpha, "0.1 is a good choice")
    whole("seed", seed, 0)
    given = {name: read_bounded(Path(path), f"the file of the {name}", 2**33) for name, path in (files or {}).items()}
    if target in ("truth", "observed-class"):
        words = "has no meaning for the rows of a reference; use 'predicted', a label or None"
        raise InputError(f"target={target!r} {words}")
    if (kind := modality(X)) != "table":
        raise InputError(f"validate is for tables, and X is a list of {kind}s; use butfor.check_sampler for those")
    frame = as_frame(X, "data")
    wrapped = bind_model(model, frame)
    table, fitted = _bound(frame, reference, sampler, reference_groups)
    clusters = fitted.reference.clusters
    count = len(fitted.reference.values) if clusters is None else len(np.unique(clusters))
    if count < LEAST_ROWS:
        least = f"{LEAST_ROWS} {'rows' if clusters is None else 'groups of rows'}"
        raise InputError(f"validate splits the reference and needs at least {least}, got {count}; give more")
    with reporting(progress) as report:
        case = Case(
            model, wrapped, table, fitted, target, decide, alpha, SIZES[size], seed,
            lambda stage, done, total: report(Progress(f"validate: {stage}", done, total)),
        )  # fmt: skip
        if decide is not None:
            Decision(decide)(case.outputs(case.table.values[:10]))  # a rule that raises is refused now
        sections, result = _sections(case)
    requirements = []
    for one in (one for section in sections for one in section.requirements):
        if one.figure is not None and not np.isfinite(one.figure):  # JSON has none such
            one = replace(one, figure=None, failed=True, why=f"The figure is {one.figure}.")
        requirements.append({**asdict(one), "status": one.status})
    facts: dict[str, Any] = {
        "format": FORMAT,
        "butfor": __version__,
        "verdict": "failed" if any(one["status"] == "failed" for one in requirements) else "passed",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "intended_use": intended_use.strip(),
        "limits": [*([limits.strip()] if limits.strip() else []), *LIMITS],
        "subject": _subject(case, _hashes(given)),
        "settings": {"alpha": alpha, "target": None if target is None else str(target), "size": size, "seed": seed,
                     **asdict(SIZES[size])},
        "command": command or _call(alpha, size, seed, target, decide, reference_groups),
        "environment": {"python": platform.python_version(), "system": platform.platform(terse=True),
                        "packages": packages()},
        "requirements": requirements,
        "sections": [_section(one) for one in sections],
        "result": None if result is None else _counts(result),
        "mapping": json.loads(Path(__file__).with_name("mapping.json").read_text(encoding="utf-8")),
        "evaluations": sum(case.evaluated),
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip
    return Validation(facts, None if result is None else result.with_sources(**dict(facts["subject"]["sources"])))


def _bound(
    data: object, reference: object, fit: Callable[[Any], Any] | None, groups: ArrayLike | None
) -> tuple[Table, TableSampler]:
    """Return the data, and a sampler for it that can be fitted again to parts of its reference."""
    if fit is not None and not is_data(reference):
        raise InputError(
            "got a reference that is no table, and sampler=; give rows, and the function that fits to them"
        )
    table, sampler = bind_sampler(data, reference if fit is None else fit(reference), reference_groups=groups)
    if fit is not None and isinstance(sampler, TableSampler):
        kept = fit
        sampler = replace(sampler, refit=lambda part: kept(part.show(part.values)))
    if not isinstance(sampler, TableSampler) or sampler.refit is None:
        raise InputError(
            f"validate fits the sampler again to parts of its reference, which {sampler!r:.80} cannot; give reference "
            "rows, and sampler= the function that fits it to rows, such as butfor.tabular.gaussian"
        )
    return table, sampler


def _sections(case: Case) -> tuple[list[Section], Result | None]:
    """Run every check; without a model that is a function, only those that need none."""
    sections: list[Section] = []

    def add(name: str, make: Callable[[Case], Section]) -> Section:
        case.report(name, 0, 1)
        sections.append(make(case) if name == "core" else checks.guarded(name, lambda: make(case)))
        case.report(name, 1, 1)
        return sections[-1]

    if any(one.status == "failed" for one in add("core", checks.core_section).requirements):
        return [*sections, *(untested(name, BROKEN_CORE) for name in STAGES if name != "core")], None
    model = add("model", checks.model_section)
    add("data", checks.data_section)
    add("sampler", checks.sampler_section)
    result: Result | None = None
    steady = all(one.status == "passed" for one in model.requirements)

    def stable(case: Case) -> Section:
        nonlocal result
        rows = stream(case.seed, "validation", "rows").permutation(len(case.table.values))[: case.sizes.inputs]
        section, result = checks.stability_section(case, np.sort(rows))
        return section

    stages: dict[str, Callable[[Case], Section]] = {
        "memory": checks.memory_section, "size": checks.size_section, "power": checks.power_section,
        "coverage": checks.coverage_section, "stability": stable,
    }  # fmt: skip
    for name, make in stages.items():
        if steady or name == "power":
            add(name, make)
        else:
            sections.append(untested(name, RANDOM))
    return sections, result


LIMITS = (
    "The pack speaks of this model, these rows and this reference. Another version of any of them needs another pack.",
    "Size and power are tested on the reference, coverage on references simulated from the fitted sampler: a form of "
    "dependence that no test sees may remain.",
    "What is enough tells a decision; it is no cause. Nothing here says that the model is right or fair.",
    "Limits of chance fail a sound requirement now and then: each at most one time in a hundred. Repeat with another "
    "seed and more splits before rejecting; do not repeat until it passes.",
)


def _subject(case: Case, files: dict[str, str]) -> dict[str, Any]:
    """Return what was validated, with hashes by which it can be known again."""
    outputs = np.round(case.outputs(case.table.values[:50].astype(np.float64)), 6) + 0.0
    clusters = case.reference.clusters
    hashed = {"data": case.table.values, "reference": case.rows}
    hashed["outputs of the model on the first 50 rows of the data"] = outputs
    return {
        "model": model_name(case.model) or type(case.model).__name__,
        "columns": list(case.table.columns),
        "rows": len(case.table.values),
        "reference_rows": len(case.rows),
        "reference_groups": None if clusters is None else len(np.unique(clusters)),
        "sampler": repr(case.sampler),
        "hashes": {
            **{name: sha256(f"{a.shape}".encode() + a.astype(np.float64).tobytes()) for name, a in hashed.items()},
            **{f"file of the {name}": value for name, value in files.items()},
        },
        "sources": {"data": f"{len(case.table.values):,} rows, validated", "reference": f"{len(case.rows):,} rows"},
    }


def _call(alpha: float, size: str, seed: int, target: Any, decide: Any, groups: Any) -> str:
    words = [f"alpha={alpha:g}", f"size={size!r}", f"seed={seed}"]
    words += [] if target is None else [f"target={target!r}"]
    words += [] if decide is None else ["decide=decide"]
    words += [] if groups is None else ["reference_groups=groups"]
    return f"butfor.validate(model, X, reference, {', '.join(words)})"


def _counts(result: Result) -> dict[str, int]:
    """Return what the result of the pack holds, for its verification."""
    counts = {"inputs": result.n_inputs, "subsets": len(result.subset_names), "chosen": int(result.chosen.sum())}
    if result.decided is not None:
        counts["decisive"] = int(result.decided.necessary.sum())
    return counts


def _section(section: Section) -> dict[str, Any]:
    tables = [
        {**asdict(table), "rows": [[None if cell != cell else cell for cell in row] for row in table.rows]}
        for table in section.tables
    ]
    ids, title = [one.id for one in section.requirements], STAGES[section.name][0]
    return {"name": section.name, "title": title, "text": list(section.text), "requirements": ids, "tables": tables}


def _json(facts: object) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False, default=float) + "\n"


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes as hexadecimal digits.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: sha256(content) for name, content in files.items()}


def packages() -> dict[str, str]:
    known = {one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]}
    return dict(sorted(known.items(), key=lambda pair: pair[0].lower()))


def bill() -> dict[str, Any]:
    """Return a bill of materials (CycloneDX 1.6) of what is installed beside butfor, whether it is used or not."""

    def component(name: str, version: str) -> dict[str, str]:
        canonical = re.sub(r"[-_.]+", "-", name).lower()
        return {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{canonical}@{version}"}

    every = [component(name, version) for name, version in packages().items()]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("butfor", __version__)},
        "components": [one for one in every if not one["purl"].startswith("pkg:pypi/butfor@")],
    }


NAMES = {name: name.capitalize() for name in (*STAGES, "provenance", "signature")}  # of sections, in tables
NAMES |= {"use": "Intended use and limits", "matrix": "Requirements", "core": "Self-test"}


def headline(facts: Mapping[str, Any]) -> str:
    """Return the verdict in one line."""
    counts = {status: sum(one["status"] == status for one in facts["requirements"]) for status in
              ("passed", "failed", "not tested")}  # fmt: skip
    more = "".join(f", {count} {status}" for status, count in counts.items() if status != "passed" and count)
    return f"{facts['verdict']} ({counts['passed']} of {sum(counts.values())} requirements met{more})"


def number(value: Any) -> str:
    """Return a figure as it is printed.

    >>> number(0.123456), number(3.0), number("x"), number(None)
    ('0.123', '3', 'x', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if float(value) == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{float(value):.3g}"


def bound(requirement: Mapping[str, Any]) -> str:
    relation = {"<=": "at most", ">=": "at least"}[requirement["relation"]]
    return f"{relation} {number(requirement['limit'])}"


def render(facts: Mapping[str, Any], seal: str) -> str:
    """Return the page; everything that came from the user is escaped. `seal` is the hash of `validation.json`."""
    by_section: dict[str, list[Any]] = {}
    for one in facts["requirements"]:
        by_section.setdefault(one["section"], []).append(one)
    content = {
        "facts": facts, "seal": seal, "headline": headline(facts), "by_section": by_section,
        "untested": _not_tested(facts), "facts_file": FACTS, "names": NAMES,
    }  # fmt: skip
    return filled("pack.html.j2", content, Path(__file__).parent, number=number, bound=bound)


def _not_tested(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the numbers of requirements that were not tested, by the reason."""
    reasons: dict[str, list[str]] = {}
    for one in facts["requirements"]:
        if one["status"] == "not tested":
            reasons.setdefault(one["why"], []).append(one["id"])
    return reasons


def verify(folder: str | PathLike[str]) -> list[str]:
    """Return what is wrong with a pack, one sentence each; nothing, if it is as it was written.

    Hashes of all files are compared with the manifest, those of the result with the figures, and every verdict with its
    figure and limit. Somebody who writes all files anew can make them agree: the hash on the signed page cannot be
    changed.

    Parameters
    ----------
    folder : path
        What `Validation.write` or `butfor validate --out` wrote.

    Returns
    -------
    list of str
        Empty where everything agrees; a folder that is no pack is an error.

    Examples
    --------
    >>> verify("no-such-pack")
    Traceback (most recent call last):
    butfor.types.InputError: no-such-pack is not a validation pack: it has no manifest.json; name a folder that ...
    """
    pack = Path(folder)
    if not (pack / MANIFEST).is_file():
        raise InputError(
            f"{pack} is not a validation pack: it has no {MANIFEST}; name a folder that butfor validate wrote"
        )
    try:
        manifest = read_json(pack / MANIFEST, "the manifest")
    except InputError as error:
        return [str(error)]
    listed = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(listed, dict) or not {PAGE, FACTS, BILL} <= set(listed):
        return [f"{MANIFEST} does not list the files of a pack"]
    wrong = []
    for name, expected in sorted(listed.items()):
        path = pack / Path(name).name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif sha256(read_bounded(path, "the file")) != expected:
            wrong.append(f"{name} was changed after the pack was written")
    if wrong:
        return wrong
    try:
        return _disagreements(pack, read_json(pack / FACTS, "the figures"), listed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [f"{FACTS} is not what a validation writes ({type(error).__name__}: {error})"]


def _disagreements(pack: Path, facts: Mapping[str, Any], listed: Mapping[str, str]) -> list[str]:
    """Return where figures, verdicts, result and page do not go together."""
    wrong = [
        f"{name} is not the file that {FACTS} was written with"
        for name, expected in facts["files"].items()
        if listed.get(name) != expected
    ]
    for one in facts["requirements"]:
        status = status_of(one["figure"], one["relation"], one["limit"], failed=one["failed"])
        if status != one["status"]:
            wrong.append(f"{one['id']} is called {one['status']}, but its figure says {status}")
    verdict = "failed" if any(one["status"] == "failed" for one in facts["requirements"]) else "passed"
    if verdict != facts["verdict"]:
        wrong.append(f"the verdict is {facts['verdict']}, but its requirements say {verdict}")
    if listed[FACTS] not in (pack / PAGE).read_text(encoding="utf-8"):
        wrong.append(f"{PAGE} was written from other figures than those in {FACTS}")
    if facts["result"] is not None and _counts(load(pack / RESULT)) != facts["result"]:
        wrong.append(f"{RESULT} holds other findings than {FACTS} says")
    return wrong


def seal_of(folder: str | PathLike[str]) -> str:
    """Return the hash that stands on the signature page."""
    return sha256(read_bounded(Path(folder) / FACTS, "the figures"))
