"""ContextCite's call: `from butfor.compat import ContextCiter` in place of `from context_cite import ContextCiter`."""

from __future__ import annotations

from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.context import Foils, Prompt, explain, prompt
from butfor.context.result import ContextResult
from butfor.models.wrap import need
from butfor.text.segment import paragraph_spans, sentence_spans, word_spans
from butfor.types import Floats, InputError, one_of

if TYPE_CHECKING:
    import pandas as pd

TEMPLATE = "Context: {context}\n\nQuery: {query}"
SPANS = {"sentence": sentence_spans, "paragraph": paragraph_spans, "word": word_spans}


class ContextCiter:
    """ContextCite's arguments and attributes, with p-values, decisions and a controlled error rate beside each score.

    Sources are replaced by foils, not deleted: without `foils` they are the other sources of the context itself, which
    says only which of them the answer rests on rather than on others of the same text, and needs about 8 of them.

    Parameters
    ----------
    model, tokenizer : object
        Of Hugging Face, asked through its chat template if it has one; with `tokenizer=None` any model that
        `butfor.context.explain` takes.
    context, query : str
    source_type : {"sentence", "paragraph", "word"}
    generate_kwargs : dict, optional
        `max_new_tokens`, 64 by default, as each foil has an answer; answers are greedy.
    num_ablations : int
        The most foils of a source.
    ablation_keep_prob, solver : object, optional
        Not used: there is no surrogate model.
    batch_size : int
        Prompts that go through the network at a time.
    prompt_template : str
        With "{context}" and "{query}".
    foils : list, mapping or callable, optional
        As in `butfor.context.explain`.
    alpha : float
        Share of the sources called decisive that may be wrong on average.

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
        source_type: Literal["sentence", "paragraph", "word"] = "sentence",
        generate_kwargs: dict[str, Any] | None = None,
        num_ablations: int = 10,
        ablation_keep_prob: float | None = None,
        batch_size: int = 8,
        solver: object = None,
        prompt_template: str = TEMPLATE,
        *,
        foils: Any = None,
        alpha: float = 0.1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        del ablation_keep_prob, solver
        one_of("source_type", source_type, tuple(SPANS))
        if "{context}" not in prompt_template or "{query}" not in prompt_template:
            raise InputError("prompt_template must hold {context} and {query}")
        self._model = model
        if tokenizer is not None:
            from butfor.models import transformers

            given = {"max_new_tokens": 64, "do_sample": False, **(generate_kwargs or {})}
            if given["do_sample"] or len(given) > 2:
                raise InputError(f"generate_kwargs takes max_new_tokens, and answers are greedy; got {given}")
            self._model = transformers(model, tokenizer, max_new_tokens=given["max_new_tokens"], batch_size=batch_size)
        if unknown := set(options) - set(signature(explain).parameters):
            raise InputError(f"ContextCiter takes no {sorted(unknown)[0]!r}; beside its own it takes those of explain")
        before, after = (part.replace("{query}", query) for part in prompt_template.split("{context}", 1))
        spans = SPANS[source_type](context)
        if len(spans) < 2:
            raise InputError(f"the context has {len(spans)} {source_type}s; attribution needs at least two")
        at, text = len(before), before + context + after
        chat = bool(getattr(tokenizer, "chat_template", None))
        named = {f"{source_type} {k}": (0,) * chat + (at + a, at + b) for k, (a, b) in enumerate(spans, start=1)}
        self.prompt: Prompt = prompt([{"role": "user", "content": text}] if chat else text, spans=named)
        self.sources: list[str] = list(self.prompt.parts.values())
        self._settings = {"alpha": alpha, "draws": num_ablations, "seed": seed, "enough": None, **options}
        if foils is None:
            if len(set(self.sources)) < 3:
                raise InputError("the context has fewer than 3 different sources, which are no foils; give foils=")
            different = dict.fromkeys(self.sources)
            pools = {k: tuple(other for other in different if other != text) for k, text in self.prompt.parts.items()}
            foils = Foils(pools, inside=True)
        self._foils = foils

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str,
        context: str,
        query: str,
        device: str | None = None,
        model_kwargs: dict[str, Any] | None = None,
        tokenizer_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> ContextCiter:
        """Load a model of Hugging Face and its tokenizer, and cite with them.

        Parameters
        ----------
        pretrained_model_name_or_path : str
        context, query : str
        device : str, optional
            None: where the model is loaded.
        model_kwargs, tokenizer_kwargs : dict, optional
            Of the two `from_pretrained`.
        **options : object
            Of `ContextCiter`.

        Returns
        -------
        ContextCiter
        """
        hugging_face, name = need("transformers", "hugging-face"), pretrained_model_name_or_path
        model = hugging_face.AutoModelForCausalLM.from_pretrained(name, **(model_kwargs or {}))
        tokenizer = hugging_face.AutoTokenizer.from_pretrained(name, **(tokenizer_kwargs or {}))
        return cls(model if device is None else model.to(device), tokenizer, context, query, **options)

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
