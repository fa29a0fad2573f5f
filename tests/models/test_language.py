"""Language models in process, on a tiny random network: against naive loops, in other company, with seeds."""

import numpy as np
import pytest

import butfor.models
from butfor.compat import ContextCiter
from butfor.types import InputError

pytestmark = pytest.mark.torch
WORDS = [f"w{k}" for k in range(60)]
PROMPTS = [" ".join(WORDS[(k * k + j) % 60] if j > 4 else WORDS[j] for j in range(5 + 2 * k)) for k in range(7)]


@pytest.fixture(params=["gpt2", "llama"], scope="module")
def parts(request):
    torch, hf, tk = (pytest.importorskip(name) for name in ("torch", "transformers", "tokenizers"))
    raw = tk.Tokenizer(tk.models.WordLevel({w: k for k, w in enumerate([*WORDS, "<u>", "<e>"])}, unk_token="<u>"))
    raw.pre_tokenizer = tk.pre_tokenizers.WhitespaceSplit()
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<u>", eos_token="<e>")
    torch.manual_seed(1)
    ends = {"vocab_size": 62, "bos_token_id": 61, "eos_token_id": 61}
    if request.param == "gpt2":
        config = hf.GPT2Config(n_positions=64, n_embd=32, n_layer=2, n_head=2, initializer_range=0.5, **ends)
        return hf.GPT2LMHeadModel(config).eval(), tokenizer
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return hf.LlamaForCausalLM(hf.LlamaConfig(initializer_range=0.5, **sizes, **ends)).eval(), tokenizer


def naive(model, tokenizer, prompt, n):
    import torch

    ids, new = tokenizer(prompt)["input_ids"], []
    with torch.no_grad():
        for _ in range(n):
            token = int(model(torch.tensor([ids + new])).logits[0, -1].argmax())
            if token == 61:
                break
            new.append(token)
    return tokenizer.decode(new, skip_special_tokens=True)


def test_greedy_answers_are_those_of_a_naive_loop_in_any_company(parts):
    expected = [naive(*parts, prompt, 6) for prompt in PROMPTS]
    for size in (1, 3, 8):
        model = butfor.models.transformers(*parts, max_new_tokens=6, batch_size=size)
        assert [text.strip() for text in model.answer(PROMPTS)] == expected
    assert model.usage.calls == 7


def test_scores_are_those_of_teacher_forcing(parts):
    import torch

    model, tokenizer = parts
    answers = [" w3 w9", " w1", " w4 w5 w6", "", " w8", " w2 w2", " w7"]
    expected = []
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        ids, start = tokenizer(prompt + answer)["input_ids"], len(tokenizer(prompt)["input_ids"])
        with torch.no_grad():
            table = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
        expected.append(sum(float(table[k - 1, ids[k]]) for k in range(start, len(ids))))
    for size in (1, 3, 8):
        scores = butfor.models.transformers(*parts, batch_size=size).score(PROMPTS, answers)
        np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_prompt_and_a_seed_have_one_answer(parts):
    one, eight = (butfor.models.transformers(*parts, temperature=1.0, max_new_tokens=6, batch_size=n) for n in (1, 8))
    seeds = list(range(7))
    assert one.answer(PROMPTS, seeds) == eight.answer(PROMPTS[::-1], seeds[::-1])[::-1]
    assert len(set(one.answer(PROMPTS[:1] * 7, seeds))) > 1
    with pytest.raises(InputError, match="takes texts, got chat messages"):
        one.answer([[{"role": "user", "content": "w1"}]])


def test_context_cite_asks_through_the_chat_template(parts, tmp_path):
    model, tokenizer = parts
    model.save_pretrained(tmp_path)
    tokenizer.chat_template = "{{ messages[0]['content'] }} w5"
    try:
        tokenizer.save_pretrained(tmp_path)
    finally:
        tokenizer.chat_template = None
    pool = [f"w{k} w{k + 1}." for k in range(30, 50)]
    given = {"source_type": "word", "generate_kwargs": {"max_new_tokens": 3}, "prompt_template": "w1 {context} {query}"}
    citer = ContextCiter.from_pretrained(str(tmp_path), "w2 w3 w4", "w6", foils=pool, batch_size=2, **given)
    assert citer.prompt.render() == [{"role": "user", "content": "w1 w2 w3 w4 w6"}]
    assert citer.sources == ["w2", "w3", "w4"]
    assert citer.response.strip() == naive(*parts, "w1 w2 w3 w4 w6 w5", 3)
    assert citer.get_attributions().shape == (3,)
    with pytest.raises(InputError, match="greedy"):
        ContextCiter(model, tokenizer, "w2 w3 w4", "w6", generate_kwargs={"do_sample": True})
