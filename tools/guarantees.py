"""Write docs/guarantees.md: python tools/guarantees.py > docs/guarantees.md (make docs does)."""

from __future__ import annotations

import sys
from typing import Any

from butfor.inference.guarantees import DEFAULT_RULE, PROMISES, SEQUENTIAL
from butfor.results.words import EXCHANGEABLE, PICKED, REFUSALS, UNPICKED, UNSEEN, Note


def page() -> str:
    """Return the documentation page of every test and rule, in Markdown; docs/guarantees.md is this text."""
    by_rule: dict[str, list[str]] = {}
    for test, rules in PROMISES.items():
        for rule in rules if test in DEFAULT_RULE else ():
            by_rule.setdefault(rule, []).append(f"`{test}`{' (default)' if DEFAULT_RULE[test] == rule else ''}")
    promises = {rule: promise for test in DEFAULT_RULE for rule, promise in PROMISES[test].items()}
    rows = [
        f"| `{rule}` | {', '.join(tests)} | {promises[rule].controls} | {promises[rule].needs} | "
        f"{promises[rule].proven_by} |"
        for rule, tests in by_rule.items()
    ]
    sized = 'test="osft" or test="few-shot"'
    added: list[tuple[str, str, dict[str, Any]]] = [
        ('test="osft"', "signs", {}),
        (sized, "sizes", {}),
        ('rule="bh" with test="irt", where some hypotheses did not vary', "filtered", {}),
        ("a sampler that ignores dependence, such as `tabular.empirical`", "dependence-ignored", {}),
        (f"{sized} with a sampler of rows or margins, here of 100", "beyond-reference", {"rows": 101}),
        ("regions or words that were picked by their content, such as `image.superpixels`", "data-dependent", {}),
        ('target="truth"', "truth", {}),
        ("min_effect=0.1", "min-effect", {"margin": 0.1}),
        ("control=False", "not-controlled", {}),
        ("subsets that the control finds not calibrated", "not-calibrated", {"names": ["age"]}),
        ('target="observed-class"', "observed-class", {}),
        ('test="few-shot" with fewer than 10 inputs or family="input"', "tied-labels", {}),
        ("a sampler that always draws the same, such as an inpainting network as it is", "one-point", {}),
        ("early_stop=True, delta=0.01", "early-stop", {"agree": 0.99}),
        ("always", "fixed-alpha", {}),
    ]
    lines = []
    for when, code, values in added:
        sentence = Note(code, "warning", values)
        lines.append(f"- {when}: Nothing is controlled: {sentence}." if code in REFUSALS else f"- {when}: {sentence}")
    return f"""# What each combination guarantees

Written by `make docs` from the code; every result has its own as `result.guarantee`. A combination that is not listed
is refused. `family="run"` promises the level over all hypotheses of the run, `family="input"` within each input.

All of them assume that {EXCHANGEABLE}, that {UNSEEN}, and that {UNPICKED} (or that `picked=` says how: then
{PICKED}).

| rule | test | controls | provided also that | proven by |
|---|---|---|---|---|
{chr(10).join(rows)}

P-values of the sequential test: {SEQUENTIAL}.

## What a result may add

{chr(10).join(lines)}
"""


if __name__ == "__main__":
    sys.stdout.write(page())
