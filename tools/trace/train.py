#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The training run behind pytorch_train.hptrace.zst: a small language model on text that Debian ships.

It is meant as a fair challenge to an allocator, not as a good model. What makes it one:
- embedding tables that live for the whole run beside activations that live for microseconds;
- a hashed bigram table with sparse gradients, whose sizes follow the text of the batch;
- batches bounded by tokens and cut at the longest paragraph, so nearly every step has sizes of its own;
- an evaluation now and then, and a checkpoint kept in memory, which come between the steps.

Text: the licences of base-files (on every Debian system) and, where installed, the manual of debian-policy.
Run it with Debian's own python3-torch: /usr/bin/python3 tools/trace/train.py --steps 300
"""
import argparse
import glob
import gzip
import io
import os
import random
import re
import time

import torch
from torch import nn

TEXTS = ("/usr/share/common-licenses/*", "/usr/share/doc/debian-policy/policy.txt.gz")
PAD, UNKNOWN = 0, 1
LONGEST = 160           # tokens a paragraph is cut at
BIGRAM_ROWS = 1 << 16


def paragraphs():
    """The paragraphs of all texts, as lists of lower-case words and punctuation."""
    names = sorted(n for pattern in TEXTS for n in glob.glob(pattern) if not os.path.islink(n))
    for name in names:
        opener = gzip.open if name.endswith(".gz") else open
        with opener(name, "rt", encoding="utf-8", errors="replace") as file:
            for part in re.split(r"\n\s*\n", file.read()):
                words = re.findall(r"[a-z]+|\d|[^\sa-z\d]", part.lower())
                if len(words) > 3:
                    yield words


class Text:
    """All paragraphs as numbers, and batches of about the same number of tokens drawn from them."""

    def __init__(self, vocabulary):
        parts = list(paragraphs())
        count = {}
        for part in parts:
            for word in part:
                count[word] = count.get(word, 0) + 1
        common = sorted(count, key=lambda word: (-count[word], word))[:vocabulary - 2]
        number = {word: i + 2 for i, word in enumerate(common)}
        self.vocabulary = len(number) + 2
        self.parts = [[number.get(word, UNKNOWN) for word in part[:LONGEST]] for part in parts]
        self.tokens = sum(map(len, self.parts))

    def batch(self, tokens):
        """Paragraphs of like length, as a loader with buckets gives them: (batch, longest) padded."""
        pivot = len(random.choice(self.parts))
        like = [part for part in random.sample(self.parts, min(400, len(self.parts)))
                if pivot * 0.7 <= len(part) <= pivot * 1.1 + 2] or [random.choice(self.parts)]
        rows = like[:max(1, tokens // max(map(len, like)))]
        width = max(map(len, rows))
        return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


class Model(nn.Module):
    """Word, position and hashed bigram embeddings, one transformer block, output tied to the words."""

    def __init__(self, vocabulary, width, heads):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.places = nn.Embedding(LONGEST, width)
        self.bigrams = nn.Embedding(BIGRAM_ROWS, width, sparse=True)
        self.block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        for table in (self.words, self.places, self.bigrams):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        length = tokens.shape[1]
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)
        bigram = (before * 31337 + tokens * 7919) % BIGRAM_ROWS
        x = self.words(tokens) + self.places(torch.arange(length)) + self.bigrams(bigram)
        causal = torch.full((length, length), float("-inf")).triu(1)
        x = self.block(x, src_mask=causal, src_key_padding_mask=tokens == PAD)
        return self.norm(x) @ self.words.weight.t()


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=1500, help="tokens a batch (default %(default)s)")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    text = Text(args.vocabulary)
    model = Model(text.vocabulary, args.width, heads=4)
    sparse = [model.bigrams.weight]
    dense = [p for p in model.parameters() if p is not model.bigrams.weight]
    optimizers = [torch.optim.AdamW(dense, lr=1e-3), torch.optim.SparseAdam(sparse, lr=1e-3)]
    print(f"{len(text.parts)} paragraphs, {text.tokens} tokens, {text.vocabulary} words, "
          f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)

    start = time.monotonic()
    for step in range(1, args.steps + 1):
        loss = loss_of(model, text.batch(args.tokens))
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if step == 1 or step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - start:.1f} s", flush=True)
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                held = sum(loss_of(model, text.batch(args.tokens)).item() for _ in range(4)) / 4
            model.train()
            print(f"step {step}: evaluation {held:.3f}", flush=True)
        if step % 100 == 0:
            torch.save(model.state_dict(), io.BytesIO())


if __name__ == "__main__":
    main()
