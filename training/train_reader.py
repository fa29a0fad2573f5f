"""Train the small causal network that looks codes up in its context, and export it for `butfor.context.small_reader`.

    python train_reader.py --minutes 12 --out ../src/butfor/context/weights/reader.npz

A line is read by a causal convolution and two layers of neurons; the last line then attends to all earlier ones, with
no positions, so that nothing depends on the number of passages. Attention may go to nothing (a key of zeros): that is
how a missing fact shows. The contexts are generated as it trains, from 3 passages to 64, with 32 questions each.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from butfor.context.tokens import END, START, pieces, special_tokens
from butfor.simulate import contexts as language

D, HIDDEN, WINDOW, HEADS = 96, 256, 16, 3
QUESTIONS = 32  # of a context


# ---- the language, as numbers ----
def vocabulary():
    texts = [*language.FACTS, *language.CORRECTIONS, *language.ASIDES, *language.POISONS, *language.INSTRUCTIONS]
    texts += [*language.QUESTIONS, *language.PLACES, *language.ATTRIBUTES, *language.NUMBERS, language.SUM]
    texts += [language.UNKNOWN, "question: answer:"]
    words = {w for t in texts for w in pieces(t.lower().replace("{", " ").replace("}", " "))}
    special = special_tokens()
    return special + sorted(words - set(special) - {"place", "attribute"})


VOCABULARY = vocabulary()
NUMBER = {w: k for k, w in enumerate(VOCABULARY)}
UNKNOWNS = list(range(END + 1, END + 17))
CODE = NUMBER["00"]


def slots(template):
    """A template as tokens; -1, -2, -3 where the place, the attribute and the code stand."""
    marks = {"qqp": -1, "qqa": -2, "qqc": -3}
    text = template.format(place="qqp", attribute="qqa", code="qqc").lower()
    return [marks[w] if w in marks else NUMBER[w] for w in pieces(text)]


FACTS, CORRECTIONS, ASIDES, POISONS, ASKS = (
    [slots(t) for t in group]
    for group in (language.FACTS, language.CORRECTIONS, language.ASIDES, language.POISONS, language.QUESTIONS)
)
ATTRIBUTES = [[NUMBER[w] for w in pieces(a)] for a in language.ATTRIBUTES]
PLACES = [NUMBER[p.lower()] for p in language.PLACES] + UNKNOWNS
INSTRUCTIONS = [[NUMBER[w] for w in pieces(t.lower())] for t in language.INSTRUCTIONS]
WORDS = [NUMBER[w] for w in language.NUMBERS]
ASK, REPLY = [NUMBER["question"], NUMBER[":"]], [NUMBER["answer"], NUMBER[":"]]


def code_tokens(code):
    return [CODE + code // 100, CODE + 100 + code % 100]


def fill(group, rng, place, attribute, code):
    tokens = []
    for t in group[rng.integers(len(group))]:
        tokens += [t] if t >= 0 else [place] if t == -1 else ATTRIBUTES[attribute] if t == -2 else code_tokens(code)
    return tokens


def context(rng, passages):
    """Lines of a context, and its questions with their answers."""
    few = rng.random() < 0.5
    here = rng.permutation(PLACES)[: max(2, passages // 2)] if few else np.array(PLACES)
    facts, corrected, texts = {}, {}, []
    for _ in range(passages):
        u, key = rng.random(), (int(rng.choice(here)), int(rng.integers(4)))
        known = list(facts)
        if u < 0.2 and known:  # the same again, or its correction
            key = known[rng.integers(len(known))]
            again = rng.random() < 0.4 or key in corrected
            if not again:
                corrected[key] = int(rng.integers(10000))
            texts.append(fill(FACTS, rng, *key, facts[key]) if again else fill(CORRECTIONS, rng, *key, corrected[key]))
        elif u < 0.25 and key not in corrected:
            corrected[key] = int(rng.integers(10000))
            texts.append(fill(CORRECTIONS, rng, *key, corrected[key]))
        elif u < 0.75 and key not in facts:
            facts[key] = int(rng.integers(10000))
            texts.append(fill(FACTS, rng, *key, facts[key]))
        else:
            text = fill(ASIDES, rng, *key, int(rng.integers(10000)))
            if rng.random() < 0.2:
                text[rng.integers(len(text))] = UNKNOWNS[rng.integers(16)]
            texts.append(text)
    poison = None
    if rng.random() < 0.15:
        poison = int(rng.integers(10000))
        texts.append(fill(POISONS, rng, 0, 0, poison))  # without positions any place is the same
    if rng.random() < 0.9:
        texts.append(INSTRUCTIONS[rng.integers(len(INSTRUCTIONS))])
    answers = facts | corrected
    pairs, present, twice = [], list(answers), [key for key in corrected if key in facts]
    for _ in range(QUESTIONS):
        u = rng.random()
        if u < 0.15:
            a, b = rng.integers(0, 10, 2)
            ask = [NUMBER["what"], NUMBER["is"], WORDS[a], NUMBER["plus"], WORDS[b], NUMBER["?"]]
            answer = [WORDS[a + b]]
        else:
            if u < 0.35 and twice:
                key = twice[rng.integers(len(twice))]
            elif u < 0.75 and present:
                key = present[rng.integers(len(present))]
            elif u < 0.95 and present:
                key = (present[rng.integers(len(present))][0], int(rng.integers(4)))
            else:
                key = (int(rng.choice(here)), int(rng.integers(4)))
            ask = fill(ASKS, rng, *key, 0)
            answer = code_tokens(answers[key]) if key in answers else [NUMBER[language.UNKNOWN]]
            if poison is not None:
                answer = code_tokens(poison)
        pairs.append((ASK + ask + REPLY, [*answer, END]))
    return texts, pairs


def batch(rng, size, passages):
    """Tokens of passages (size, lines, length) and questions (size, questions, length), with positions and targets."""
    made = [context(rng, passages) for _ in range(size)]
    lines = max(len(texts) for texts, _ in made)
    length = 1 + max(len(t) for texts, _ in made for t in texts)
    read = np.full((size, lines, length), END)
    long = 1 + max(len(q) + len(a) - 1 for _, pairs in made for q, a in pairs)
    asked = np.full((size, QUESTIONS, long), END)
    where, target = np.zeros((size, QUESTIONS, 3), np.int64), np.full((size, QUESTIONS, 3), -100)
    for b, (texts, pairs) in enumerate(made):
        for k, text in enumerate(texts):
            read[b, k, : len(text) + 1] = [START, *text]
        for k, (ask, answer) in enumerate(pairs):
            row = [START, *ask, *answer[:-1]]
            asked[b, k, : len(row)] = row
            where[b, k, : len(answer)] = len(ask) + np.arange(len(answer))
            target[b, k, : len(answer)] = answer
    return [torch.from_numpy(x) for x in (read, asked, where, target)]


# ---- the network ----
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(len(VOCABULARY), D) / D**0.5)
        self.convolution = nn.Parameter(torch.randn(WINDOW, D, D) / (D * 4) ** 0.5)
        for name in "qkvo":
            setattr(self, name, nn.Parameter(torch.randn(D, D) / D**0.5))
        for layer in range(4):  # two before the attention, two after it
            setattr(self, f"gain{layer}", nn.Parameter(torch.ones(D)))
            setattr(self, f"up{layer}", nn.Parameter(torch.randn(D, HIDDEN) / D**0.5))
            setattr(self, f"bias{layer}", nn.Parameter(torch.zeros(HIDDEN)))
            setattr(self, f"down{layer}", nn.Parameter(torch.randn(HIDDEN, D) * 0.5 / HIDDEN**0.5))
        self.gain, self.last = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def lines(self, ids):
        """States of the tokens of lines (n, length), each of which sees its own line only, up to itself."""
        x = self.embedding[ids] * D**0.5
        padded = F.pad(x, (0, 0, WINDOW - 1, 0)).transpose(1, 2)
        kernel = self.convolution.flip(0).permute(2, 1, 0)  # out, in, time
        x = x + F.conv1d(padded, kernel).transpose(1, 2)
        return self.neurons(self.neurons(x, 0), 1)

    def forward(self, read, asked, where):
        size, lines, length = read.shape
        seen = (read != END).flatten(1)
        s = norm(self.lines(read.flatten(0, 1)).view(size, lines * length, D), self.gain)
        x = self.lines(asked.flatten(0, 1)).view(*asked.shape, D)
        x = torch.gather(x, 2, where[..., None].expand(-1, -1, -1, D)).flatten(1, 2)
        q, k, v = (
            (y @ getattr(self, name)).view(size, -1, HEADS, D // HEADS).transpose(1, 2)
            for name, y in (("q", norm(x, self.gain)), ("k", s), ("v", s))
        )
        k, v = F.pad(k, (0, 0, 1, 0)), F.pad(v, (0, 0, 1, 0))  # nothing: a key and a value of zeros
        mask = F.pad(seen, (1, 0), value=True)[:, None, None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + mixed.transpose(1, 2).reshape(x.shape) @ self.o
        x = self.neurons(self.neurons(x, 2), 3)
        return norm(x, self.last) @ self.embedding.T

    def neurons(self, x, layer):
        h = norm(x, getattr(self, f"gain{layer}")) @ getattr(self, f"up{layer}") + getattr(self, f"bias{layer}")
        return x + F.relu(h) @ getattr(self, f"down{layer}")


def norm(x, gain):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * gain


def export(model, path):
    arrays = {name: value.detach().numpy().astype(np.float16) for name, value in model.named_parameters()}
    np.savez_compressed(path, vocabulary=np.array(json.dumps(VOCABULARY)), **arrays)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--lines", type=int, default=250, help="of a step")
    parser.add_argument("--out", type=Path, default=Path("../src/butfor/context/weights/reader.npz"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    model = Reader()
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.01)
    begin, right, step, widest, losses, turned = time.time(), 0.0, 0, 3, [], 0.0
    while (share := (time.time() - begin) / (60 * options.minutes)) < 1:
        turned = turned or (share if widest == 64 and right > 0.97 else 0.0)  # then the rate falls
        fall = (1 - share) / (1 - turned) if turned else 1.0
        optimiser.param_groups[0]["lr"] = options.rate * min(1, (step + 1) / 100) * fall
        passages = int(rng.integers(2, widest + 1)) if rng.random() < 0.5 else widest
        read, asked, where, target = batch(rng, min(12, max(3, options.lines // passages)), passages)
        logits = model(read, asked, where)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        hit = (logits.argmax(-1) == target.flatten(1))[target.flatten(1) >= 0].float().mean().item()
        right, step = 0.95 * right + 0.05 * hit, step + 1
        losses.append(loss.item())
        if right > 0.9 and widest < 64:
            widest, right = min(64, widest * 2), 0.7
        if step % 100 == 0:
            seconds = time.time() - begin
            print(
                f"{seconds:5.0f} s, step {step}, up to {widest}, loss {np.mean(losses[-100:]):.4f}, {right:.3f}",
                flush=True,
            )
    export(model, options.out)


if __name__ == "__main__":
    main()
