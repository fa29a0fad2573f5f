"""A diffusers pipeline as a sampler, with a tiny pipeline made here."""

import json
import pickle

import numpy as np
import pytest

import butfor.image as bi
from butfor import InputError, ModelError, Subset
from butfor.evaluation.samplers import info_of

IMAGE = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
BOX = Subset("box 1", (5, 6, 25, 30))


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    torch = pytest.importorskip("torch")
    diffusers = pytest.importorskip("diffusers")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("words")
    vocabulary = {"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2, "a</w>": 3}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    words = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=8)
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=4, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=8, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=9, out_channels=4, block_out_channels=(8, 16), layers_per_block=1,
        norm_num_groups=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=8, attention_head_dim=2,
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        in_channels=3, out_channels=3, block_out_channels=(8, 8), norm_num_groups=4, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    scheduler = diffusers.DDIMScheduler(steps_offset=1, clip_sample=False)
    made = diffusers.StableDiffusionInpaintPipeline(
        vae, text, words, unet, scheduler, None, None, requires_safety_checker=False
    )
    made.set_progress_bar_config(disable=True)
    return made


pytestmark = pytest.mark.filterwarnings("ignore")  # diffusers and transformers deprecate much


def rng(seed=5):
    return np.random.default_rng(seed)


def test_it_draws_like_any_sampler(pipe):
    sampler = bi.diffusers_inpainter(pipe, side=32, num_inference_steps=2)
    one, two = sampler([IMAGE], BOX, 2, rng())
    assert (one != two).any()
    outside = np.ones((40, 50), bool)
    outside[6:30, 5:25] = False
    for image in (one, two):
        assert image.shape == IMAGE.shape
        np.testing.assert_array_equal(image[outside], IMAGE[outside])
    np.testing.assert_array_equal(sampler([IMAGE], BOX, 1, rng())[0], one)
    assert (sampler([IMAGE], BOX, 1, rng(6))[0] != one).any()
    emptied = IMAGE.copy()
    emptied[6:30, 5:25] = 9
    np.testing.assert_array_equal(sampler([emptied], BOX, 1, rng())[0], one)
    assert sampler([IMAGE], BOX, 0, rng()) == []
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sampler))([IMAGE], BOX, 1, rng())[0], one)
    assert not info_of(sampler).deterministic
    assert info_of(sampler).changes_subset_only


def test_a_folder_is_loaded_when_it_is_needed(pipe, tmp_path):
    pipe.save_pretrained(tmp_path / "pipe")
    sampler = bi.diffusers_inpainter(tmp_path / "pipe", side=32, num_inference_steps=2)
    given = bi.diffusers_inpainter(pipe, side=32, num_inference_steps=2)
    np.testing.assert_array_equal(sampler([IMAGE], BOX, 1, rng())[0], given([IMAGE], BOX, 1, rng())[0])
    assert bi.cached(sampler, tmp_path).name == repr(sampler)


def test_what_fails_is_said_in_a_sentence(pipe, tmp_path):
    with pytest.raises(InputError, match="no inpainting pipeline could be loaded from"):
        bi.diffusers_inpainter(str(tmp_path / "nothing"))([IMAGE], BOX, 1, rng())
    with pytest.raises(ModelError, match="StableDiffusionInpaintPipeline raised"):
        bi.diffusers_inpainter(pipe, side=32, strength="much")([IMAGE], BOX, 1, rng())
    with pytest.raises(InputError, match="name it"):
        bi.cached(bi.diffusers_inpainter(pipe), tmp_path)  # made in memory: nothing says which weights it has
