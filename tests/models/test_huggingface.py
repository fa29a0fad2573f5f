"""Hugging Face pipelines, with networks of a few hundred weights that are made, saved and loaded here: no network."""

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from butfor.models import hugging_face, wrap
from butfor.types import InputError, ModelError

WORDS = ["[PAD]", "[UNK]", "good", "bad", "film", "very", "a"]
LABELS = {0: "positive", 1: "neutral", 2: "negative"}
TEXTS = ["a good film", "bad", "very very bad film", "a very good film", "a", "good bad"] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text classifier and an image classifier on disk."""
    folder = tmp_path_factory.mktemp("huggingface")
    words = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", model_max_length=16
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    text = transformers.BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=16, id2label=LABELS, initializer_range=1.0, **sizes
    )
    image = transformers.ViTConfig(image_size=8, patch_size=4, id2label=LABELS, initializer_range=1.0, **sizes)
    transformers.BertForSequenceClassification(text).save_pretrained(folder / "text")
    tokenizer.save_pretrained(folder / "text")
    transformers.ViTForImageClassification(image).save_pretrained(folder / "image")
    transformers.ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(folder / "image")
    transformers.BertModel(text).save_pretrained(folder / "other")
    return folder


@pytest.fixture(scope="module")
def texts(folder):
    made = transformers.pipeline("text-classification", model=str(folder / "text"), device="cpu")
    made.model.double()  # float32 rounds by up to 1e-5 in other company, on some processors
    return made


def logits(pipeline, text):
    with torch.no_grad():
        return pipeline.model(**pipeline.tokenizer(text, return_tensors="pt")).logits[0]


def test_texts_in_the_order_of_the_labels(texts):
    wrapped = wrap(texts)
    assert wrapped.classes == ("positive", "neutral", "negative")
    expected = np.array([logits(texts, text).softmax(-1).numpy() for text in TEXTS])
    assert len(set(expected.argmax(axis=1))) > 1  # else the pipeline's own order would do
    np.testing.assert_allclose(wrapped.call(TEXTS), expected, atol=1e-6)
    assert wrapped.call(["bad"]).shape == (1, 3)


@pytest.mark.parametrize("function", ["sigmoid", "none"])
def test_function_to_apply(texts, function):
    apply = torch.sigmoid if function == "sigmoid" else torch.as_tensor
    expected = np.array([apply(logits(texts, text)).numpy() for text in TEXTS])
    np.testing.assert_allclose(hugging_face(texts, function_to_apply=function)(TEXTS), expected, atol=1e-5)


def test_real_batches(texts):
    sizes = []
    hook = texts.model.register_forward_pre_hook(
        lambda module, arguments, named: sizes.append(len(named["input_ids"])), with_kwargs=True
    )
    hugging_face(texts, batch_rows=8)(TEXTS)
    hook.remove()
    assert sizes == [8, 8, 2]


def test_long_texts_are_cut(texts):
    cut, whole = hugging_face(texts)([" ".join(["good"] * 50), " ".join(["good"] * 16)])
    np.testing.assert_allclose(cut, whole, atol=1e-6)


def test_images(folder):
    wrapped = hugging_face(folder / "image")
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (8, 8, 3), dtype=np.uint8) for _ in range(5)]
    pipeline = wrapped.call.pipeline
    with torch.no_grad():
        pixels = pipeline.image_processor(images, return_tensors="pt", input_data_format="channels_last")
        expected = pipeline.model(**pixels).logits.softmax(-1).numpy()
    np.testing.assert_allclose(wrapped(images), expected, atol=1e-5)
    assert wrapped.classes == tuple(LABELS.values())
    assert wrapped([image[:, :, 0] for image in images]).shape == (5, 3)
    with pytest.raises(ModelError, match=r"takes uint8 arrays, got ndarray of float64, shape \(8, 8\)"):
        wrapped([np.zeros((8, 8))])


def test_a_folder(folder):
    same = transformers.pipeline("text-classification", model=str(folder / "text"), device="cpu")
    assert np.array_equal(hugging_face(folder / "text")(TEXTS), wrap(same).call(TEXTS))


def test_refused(folder, texts, tmp_path):
    with pytest.raises(
        InputError, match=r"cannot be loaded: it is a .*BertModel.*, expected a model for text or image"
    ):
        hugging_face(folder / "other")
    with pytest.raises(InputError, match=f"the model {tmp_path} cannot be loaded: "):
        hugging_face(tmp_path)
    with pytest.raises(InputError, match="function_to_apply must be one of 'softmax'"):
        hugging_face(texts, function_to_apply="tanh")
    with pytest.raises(InputError, match="takes a pipeline or the folder or name of a model, got function"):
        hugging_face(lambda texts: texts)
    features = transformers.pipeline("feature-extraction", model=texts.model, tokenizer=texts.tokenizer, device="cpu")
    with pytest.raises(InputError, match="the pipeline is for feature-extraction, expected one of text-classification"):
        wrap(features)
    with pytest.raises(ModelError, match="takes strings, got int"):
        wrap(texts).call([3])
    with pytest.raises(ModelError, match="takes a list of texts or images, got a table"):
        wrap(texts).call(pd.DataFrame({"text": ["bad"]}))


def test_two_labels_of_one_name(texts):
    config = texts.model.config
    config.id2label = {0: "same", 1: "same", 2: "other"}
    try:
        with pytest.raises(InputError, match="two of the model's labels have the same name"):
            wrap(texts)
    finally:
        config.id2label = LABELS
