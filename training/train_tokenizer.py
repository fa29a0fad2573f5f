"""One WordPiece vocabulary for both networks, from the train and unlabelled reviews; the test split is never read.

Lower case: a fill takes its casing from the word it replaces, so the vocabulary need not spend entries on it.
A word keeps its apostrophes ("don't" is one word), as the words that butfor tests do.
"""

from __future__ import annotations

import json
from collections import Counter

from corpus import WEIGHTS, reviews
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

SIZE = 10_000
SPECIAL = ["[PAD]", "[UNK]", "[MASK]", "[EDGE]"]
BREAK = "<br />"
WORD = r"\w+(?:'\w+)*|\.{2,}|-{2,}|[^\w\s]"


def blank() -> Tokenizer:
    out = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    out.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("’", "'"),
            normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True),
        ]
    )
    out.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
    return out


def pruned(trained: Tokenizer, texts: list[str]) -> Tokenizer:
    """The SIZE pieces most used, frequent ones first.

    Merging leaves pieces behind that only led to longer ones; the greedy match never uses them again. Single characters
    stay, so nothing written in the alphabet becomes unknown. A prefix of the ids is the head of a sampled softmax.
    """
    counts: Counter[int] = Counter()
    for e in trained.encode_batch(texts):
        counts.update(e.ids)
    fixed = [*SPECIAL, BREAK]
    order = sorted((p for p in trained.get_vocab() if p not in fixed), key=lambda p: -counts[trained.token_to_id(p)])
    single = {p for p in order if len(p.removeprefix("##")) == 1}
    kept = set([p for p in order if p not in single][: SIZE - len(fixed) - len(single)]) | single
    rest = [p for p in order if p in kept]
    state = json.loads(trained.to_str())
    state["model"]["vocab"] = {piece: i for i, piece in enumerate([*fixed, *rest])}
    for token in state["added_tokens"]:
        token["id"] = fixed.index(token["content"])
    return Tokenizer.from_str(json.dumps(state))


def main() -> None:
    texts = reviews("train").texts + reviews("unlabelled").texts
    out = blank()
    trainer = trainers.WordPieceTrainer(
        vocab_size=SIZE + 2_500,
        special_tokens=[*SPECIAL, AddedToken(BREAK, normalized=False)],
        limit_alphabet=120,
        min_frequency=3,
    )
    out.train_from_iterator(texts, trainer)
    out = pruned(out, texts)
    WEIGHTS.mkdir(parents=True, exist_ok=True)
    out.save(str(WEIGHTS / "tokenizer.json"), pretty=False)


if __name__ == "__main__":
    main()
