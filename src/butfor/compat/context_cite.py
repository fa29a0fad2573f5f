"""ContextCite's call: `from butfor.compat import ContextCiter` in place of `from context_cite import ContextCiter`."""

from __future__ import annotations

from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.context import Foils, Prompt, explain, prompt
from butfor.context.result import ContextResult
from butfor.text.segment import paragraph_spans, sentence_spans
from butfor.types import Floats, InputError, one_of

if TYPE_CHECKING:
    import pandas as pd

TEMPLATE = "Context: {context}\n\nQuery: {query}"


class ContextCiter:
    """ContextCite's arguments and attributes, with p-values, decisions and a controlled error rate beside each score.

    Sources are replaced by foils, not deleted: without `foils` they are the other sources of the context itself, which
    says only which of them the answer rests on rather than on others of the same text, and needs about 8 of them.

    Parameters
    ----------
    model, tokenizer : object
        Of Hugging Face; with `tokenizer=None` any model that `butfor.context.explain` takes.
    context, query : str
    source_type : {"sentence", "paragraph"}
    foils : list, mapping or callable, optional
        As in `butfor.context.explain`.
    alpha : float
        Share of the sources called decisive that may be wrong on average.
    generate_kwargs : dict, optional
        `max_new_tokens` is read.
    prompt_template : str
        With "{context}" and "{query}".
    num_ablations : int
        The most foils of a source.

    Examples
    --------
    >>> model = lambda prompts: ["4417" if "Lisbon is 4417" in one else "unknown" for one in prompts]
    >>> text = "The code of Lisbon is 4417. The code of Rome is 2290. The code of Bern is 1184."
    >>> pool = [f"The code of {city} is {k}." for k, city in enumerate(("Oslo", "Riga", "Kyiv", "Graz", "Cork"))]
    >>> citer = ContextCiter(model, None, text, "What is the code of Lisbon?", foils=pool)
    >>> citer.response
    '4417'
    >>> print(citer.get_attributions(as_dataframe=True)[["Source", "necessary"]].to_string(index=False))
                         Source  necessary
    The code of Lisbon is 4417.       True
      The code of Rome is 2290.      False
      The code of Bern is 1184.      False
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        context: str,
        query: str,
        source_type: Literal["sentence", "paragraph"] = "sentence",
        *,
        foils: Any = None,
        alpha: float = 0.1,
        generate_kwargs: dict[str, Any] | None = None,
        prompt_template: str = TEMPLATE,
        num_ablations: int = 10,
        seed: int = 0,
        **options: Any,
    ) -> None:
        one_of("source_type", source_type, ("sentence", "paragraph"))
        if "{context}" not in prompt_template or "{query}" not in prompt_template:
            raise InputError("prompt_template must hold {context} and {query}")
        self._model = model
        if tokenizer is not None:
            from butfor.models import transformers

            tokens = int((generate_kwargs or {}).get("max_new_tokens", 64))
            self._model = transformers(model, tokenizer, max_new_tokens=tokens)
        if unknown := set(options) - set(signature(explain).parameters):
            raise InputError(f"ContextCiter takes no {sorted(unknown)[0]!r}; beside its own it takes those of explain")
        before, after = (part.replace("{query}", query) for part in prompt_template.split("{context}", 1))
        spans = (sentence_spans if source_type == "sentence" else paragraph_spans)(context)
        if len(spans) < 2:
            raise InputError(f"the context has {len(spans)} {source_type}s; attribution needs at least two")
        at = len(before)
        named = {f"{source_type} {k}": (at + a, at + b) for k, (a, b) in enumerate(spans, start=1)}
        self.prompt: Prompt = prompt(before + context + after, spans=named)
        self.sources: list[str] = list(self.prompt.parts.values())
        self._settings = {"alpha": alpha, "draws": num_ablations, "seed": seed, "enough": None, **options}
        if foils is None:
            if len(set(self.sources)) < 3:
                raise InputError("the context has fewer than 3 different sources, which are no foils; give foils=")
            different = dict.fromkeys(self.sources)
            pools = {k: tuple(other for other in different if other != text) for k, text in self.prompt.parts.items()}
            foils = Foils(pools, inside=True)
        self._foils = foils

    @property
    def num_sources(self) -> int:
        """Number of sources."""
        return len(self.sources)

    @cached_property
    def result(self) -> ContextResult:
        """All that the run says."""
        return explain(self._model, self.prompt, self._foils, **self._settings)

    @property
    def response(self) -> str:
        """Answer of the model to the whole prompt."""
        return self.result.answers[0]

    def get_attributions(
        self,
        start_idx: int | None = None,
        end_idx: int | None = None,
        as_dataframe: bool = False,
        top_k: int | None = None,
        verbose: bool = False,
    ) -> Floats | pd.DataFrame:
        """Return the score of each source: the drop of the answer's log-probability, or the share of other answers.

        Parameters
        ----------
        start_idx, end_idx : int, optional
            Of the response; only all of it can be attributed.
        as_dataframe : bool
            Whether the sources come as a table, the largest first; `necessary` and its `p_necessary` are of decisive
            sources, `p`, `q` and `chosen` of unusual ones.
        top_k : int, optional
            How many rows of the table.
        verbose : bool
            Print nothing either way; kept for ContextCite's calls.

        Returns
        -------
        array or pandas.DataFrame
        """
        del verbose
        if start_idx or end_idx not in (None, len(self.response)):
            raise InputError("a part of the response cannot be attributed; leave start_idx and end_idx out")
        table = self.result.table.set_index("subset").reindex(list(self.prompt.parts)).reset_index()  # zoom has groups
        scores = table["effect" if self.result.scored else "flip"].to_numpy(float)
        if not as_dataframe:
            return np.asarray(scores)
        shown = table.assign(Score=scores, Source=self.sources)
        columns = ["Score", "Source", "flip", "flip_low", "flip_high", "necessary", "p_necessary"]
        columns += ["p", "q", "chosen"]
        return shown.sort_values("Score", ascending=False, kind="stable")[columns].reset_index(drop=True)[:top_k]
