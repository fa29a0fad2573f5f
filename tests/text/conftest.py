"""Tiny language models and classifiers of a few thousand random weights, made here, saved, and loaded from disk."""

import os

import pytest

pytest.importorskip("tokenizers", reason="the text extra is not installed")
pytest.importorskip("onnxruntime", reason="the text extra is not installed")

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SAID = (
    "the film was good and acting bad but i liked it a lot wonderful story terrible ending what waste of time an mess "
    "music is loud cast fine don t s 1 2 3 so then"
)
WORDS = SAID.split()
MARKS = list(".,!?;'\"<>/()&-")
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
LIMIT = 40  # pieces that the tiny models take
LABELS = {0: "negative", 1: "neutral", 2: "positive"}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with bert, roberta, gpt2 (language models) and classifier (three classes)."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("language")
    torch.manual_seed(0)
    wordpiece, bytes_ = wordpiece_tokenizer(transformers), byte_tokenizer(transformers)
    wide = {"initializer_range": 0.6}  # so that distributions are far from even
    bert = transformers.BertConfig(vocab_size=len(wordpiece), max_position_embeddings=LIMIT, **SIZES, **wide)
    save(transformers.BertForMaskedLM(bert), wordpiece, folder / "bert")
    roberta = transformers.RobertaConfig(
        vocab_size=len(bytes_), max_position_embeddings=LIMIT + bytes_.pad_token_id + 1, **SIZES, **wide,
        pad_token_id=bytes_.pad_token_id, bos_token_id=bytes_.bos_token_id, eos_token_id=bytes_.eos_token_id,
    )  # fmt: skip
    save(transformers.RobertaForMaskedLM(roberta), bytes_, folder / "roberta")
    gpt2 = transformers.GPT2Config(
        vocab_size=len(bytes_), n_positions=LIMIT, n_embd=16, n_layer=1, n_head=2, initializer_range=0.3,
        bos_token_id=bytes_.eos_token_id, eos_token_id=bytes_.eos_token_id,
    )  # fmt: skip
    save(transformers.GPT2LMHeadModel(gpt2), byte_tokenizer(transformers, edges=False), folder / "gpt2")
    classifier = transformers.BertConfig(
        vocab_size=len(wordpiece), max_position_embeddings=LIMIT, id2label=LABELS, **SIZES, initializer_range=1.0
    )
    save(transformers.BertForSequenceClassification(classifier), wordpiece, folder / "classifier")
    return folder


def save(model, tokenizer, folder):
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def wordpiece_tokenizer(transformers):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    starts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "un", *MARKS, *"好的电影"]
    vocabulary = dict.fromkeys([*starts, *letters, *(f"##{letter}" for letter in letters), "##like", "##able", "##ed"])
    made = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=LIMIT,
    )  # fmt: skip


def byte_tokenizer(transformers, edges=True):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    merges = []
    for word in [word for plain in WORDS for word in (f"Ġ{plain}", plain, f"Ġ{plain.title()}", plain.title())]:
        merges += [(word[:size], word[size]) for size in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    pieces = dict.fromkeys([*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)])
    made = Tokenizer(models.BPE({piece: place for place, piece in enumerate(pieces)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    if edges:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
        mask_token="<mask>", model_max_length=LIMIT,
    )  # fmt: skip
