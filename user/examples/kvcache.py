#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A key-value cache of fixed blocks, as inference servers keep one, in pinned memory: where a device's blocks are
swapped out to and back from.

    kvcache.py [--blocks 128] [--steps 20000]

A sequence's tokens lie in blocks of a fixed number of tokens, wherever those are; its table lists them. Nothing is
moved when a sequence grows, what is wasted is less than a block a sequence, and two sequences with the same beginning
share its blocks until one of them writes.
"""
import argparse
import random

import numpy

import hugepin


class BlockCache:
    """Keys and values of many sequences. A block holds `tokens` tokens of all layers."""

    def __init__(self, pool, blocks, tokens, layers, width, dtype="float16"):
        self.tokens = tokens
        self.data = pool.empty((blocks, tokens, layers, 2, width), dtype)
        self.users = [0] * blocks
        self.free = list(range(blocks - 1, -1, -1))
        self.tables = {}        # sequence: (blocks, tokens in them)

    def take(self):
        if not self.free:
            raise MemoryError(f"all {len(self.users)} blocks are in use")
        block = self.free.pop()
        self.users[block] = 1
        return block

    def drop(self, block):
        self.users[block] -= 1
        if not self.users[block]:
            self.free.append(block)

    def append(self, sequence, token):
        """Add one token's keys and values, of shape (layers, 2, width)."""
        blocks, length = self.tables.get(sequence, ([], 0))
        place = length % self.tokens
        if place == 0:
            blocks.append(self.take())
        elif self.users[blocks[-1]] > 1:                # shared: write to a copy
            copy = self.take()
            self.data[copy, :place] = self.data[blocks[-1], :place]
            self.drop(blocks[-1])
            blocks[-1] = copy
        self.data[blocks[-1], place] = token
        self.tables[sequence] = blocks, length + 1

    def branch(self, sequence, new):
        """A second sequence that begins as the first one is now."""
        blocks, length = self.tables[sequence]
        for block in blocks:
            self.users[block] += 1
        self.tables[new] = list(blocks), length

    def end(self, sequence):
        for block in self.tables.pop(sequence)[0]:
            self.drop(block)

    def read(self, sequence):
        """All tokens of a sequence, gathered: what attention reads."""
        blocks, length = self.tables[sequence]
        return self.data[blocks].reshape(-1, *self.data.shape[2:])[:length]


class Server:
    """Random requests, each sequence compared with a copy kept the plain way when it ends."""

    def __init__(self, cache, seed=4):
        self.cache, self.dice = cache, random.Random(seed)
        self.plain, self.number, self.evictions, self.shared = {}, 0, 0, 0

    def begin(self, old=None):
        self.number += 1
        if old is not None:
            self.cache.branch(old, self.number)
        self.plain[self.number] = list(self.plain.get(old, ()))
        self.grow(self.number)

    def grow(self, sequence):
        token = numpy.full(self.cache.data.shape[2:], self.dice.random(), self.cache.data.dtype)
        while True:
            try:
                self.cache.append(sequence, token)
                break
            except MemoryError:
                longest = max(self.cache.tables, key=lambda name: self.cache.tables[name][1])
                self.evictions += 1
                self.end(longest)
                if longest == sequence:
                    return
        self.plain[sequence].append(token)

    def end(self, sequence):
        numpy.testing.assert_array_equal(self.cache.read(sequence), self.plain.pop(sequence))
        self.cache.end(sequence)

    def step(self):
        kind, sequence = self.dice.random(), self.dice.choice(list(self.plain)) if self.plain else None
        if sequence is None or kind < 0.01:
            self.begin()
        elif kind < 0.015:
            self.begin(sequence)
        elif kind < 0.02:
            self.end(sequence)
        else:
            self.grow(sequence)
        self.shared = max(self.shared, sum(users > 1 for users in self.cache.users))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--blocks", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    with hugepin.Context() as ctx, ctx.pool("pinned") as pool:
        server = Server(BlockCache(pool, options.blocks, tokens=16, layers=4, width=64))
        for _ in range(options.steps):
            server.step()
        for sequence in list(server.plain):
            server.end(sequence)
        cache = server.cache
        if len(cache.free) != options.blocks or any(cache.users):
            raise SystemExit(f"kvcache.py: {options.blocks - len(cache.free)} blocks were not given back")
        print(f"{server.number} sequences through {options.blocks} blocks of {cache.data[0].nbytes} bytes in pages of "
              f"{pool.segment_of(cache.data).page_bytes}: up to {server.shared} shared, {server.evictions} evictions")


if __name__ == "__main__":
    main()
