"""Options that several commands share, each with its help in this one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from butfor.cli.config import read_config
from butfor.cli.outputs import output_rule
from butfor.cli.panels import flag, needed, option, panel
from butfor.core.types import Alternative, Family, Rule
from butfor.models import wrap
from butfor.models.files import load_model
from butfor.run.procedure import TestName

MODEL, ROWS, TEST = "The model", "Rows and columns", "The test"
BATCH_ROWS_HELP = "Rows the model gets at a time; sets the memory needed."


def given(**options: object) -> dict[str, Any]:
    """What was given; the rest is left to the library, so that its defaults stand in one place."""
    return {name: value for name, value in options.items() if value is not None}


def one_of(names: object) -> str:
    return f"One of {', '.join(get_args(names))}."


@panel()
class Output:
    out: Path = needed("Folder to write into; it is made if need be.")
    seed: int = option("The same seed gives the same result.", default=0)
    config: Path | None = option(
        "TOML file with options of this command, reference-where = \"group == 'control'\" and so on; options on the "
        "command line win, paths in the file are relative to it.",
        callback=read_config,
        is_eager=True,
    )
    json: bool = flag("Print the result as JSON on standard output, and nothing else there.")
    quiet: bool = flag("No progress bar and no notes on standard error.")


@panel(MODEL)
class Trust:
    trust_pickle: bool = flag("Load a pickled model. Unpickling runs code: only from people you trust.")
    trust: list[str] | None = option("A type in a .skops file that you know and trust; may be repeated.")

    ca_file: Path | None = option("Certificates (PEM) to trust of a model at an https address.")

    def load(self, model: str) -> Any:
        return load_model(model, trust_pickle=self.trust_pickle, trusted=self.trust or (), ca_file=self.ca_file)


@panel(TEST)
class TestOptions:
    """What `butfor.Settings` has of the test and of the choice, under the same names."""

    test: str | None = option(one_of(TestName))
    alternative: str | None = option(one_of(Alternative))
    rule: str | None = option(one_of(Rule))
    family: str | None = option(one_of(Family))
    alpha: float | None = option("The level of the guarantee. Default: 0.1.")
    target: str | None = option("Which output: its label or number, predicted, observed-class, or truth with --truth.")
    link: str | None = option("Scale of the effects: logit or log.")
    draws: int | None = option("Counterfactuals per hypothesis, or the most of them.")
    decide: str | None = option(
        'The decision that is asked about: an expression of the output, "output >= 0.4", or of class names, '
        '"malignant > 0.3". Default: the predicted class where there are several outputs.'
    )
    level: float | None = option("A subset is necessary where another decision is sure to be likelier. Default: 0.5.")
    min_effect: float | None = option("Choose only what moves the output by more than this.")
    picked: str | None = option('How the inputs were picked by their output, if they were: "output >= 0.9".')

    def settings(self, model: object) -> dict[str, Any]:
        """Keywords of `explain`; a target as it was typed stands for the class that is written so, of any type."""
        written = [name for name in wrap(model).classes or () if str(name) == self.target]
        target = int(self.target) if self.target is not None and self.target.isdecimal() else self.target
        classes = wrap(model).classes
        rules = {name: output_rule(getattr(self, name), f"--{name}", classes) for name in ("decide", "picked")}
        return given(**{**vars(self), **rules, "target": written[0] if written else target})
