#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A loader with pinned staging buffers: torch's DataLoader workers read, a few pinned buffers carry to the device.

    loader.py [--workers 2] [--batches 40]

DataLoader(pin_memory=True) allocates and pins a buffer for each batch. Here a ring of buffers is pinned once; a batch
is copied into the next one, and from there to the device without stopping the program. A buffer is written again only
when the copy out of it has been done, which an event says. Without a device the same code trains on the CPU.
"""
import argparse
import sys

import torch
from torch.utils.data import DataLoader, Dataset

import hugepin


class Points(Dataset):
    """Samples that only their number determines, made by the workers."""

    def __init__(self, count, features):
        self.count, self.features = count, features

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        dice = torch.Generator().manual_seed(index)
        x = torch.randn(self.features, generator=dice)
        return x, x.sum().sin()


class Slot:
    """One pinned buffer for a batch of each of the dataset's tensors, and when it may be written again."""

    def __init__(self, pool, like):
        self.tensors = [pool.torch_empty(tensor.shape, tensor.dtype) for tensor in like]
        self.copied = torch.cuda.Event() if torch.cuda.is_available() else None

    def carry(self, batch, device):
        if self.copied:
            self.copied.synchronize()
        staged = [slot[:len(tensor)].copy_(tensor) for slot, tensor in zip(self.tensors, batch)]
        there = [tensor.to(device, non_blocking=True) for tensor in staged]
        if self.copied:
            self.copied.record()
        return there


class Staging:
    """Iterates over a loader's batches, on the device, through a ring of slots; the first batch is the largest."""

    def __init__(self, loader, pool, device, slots=2):
        self.loader, self.pool, self.device, self.count = loader, pool, device, slots
        self.ring = []

    def __iter__(self):
        for number, batch in enumerate(self.loader):
            if len(self.ring) < self.count:
                self.ring.append(Slot(self.pool, batch))
            yield self.ring[number % self.count].carry(batch, self.device)


def train(batches, features, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(features, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = (model(x).squeeze(1) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--features", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.init()       # memory is registered in the context that the program has
    points = Points(options.batches * 128 - 50, options.features)
    loader = DataLoader(points, batch_size=128, num_workers=options.workers)
    plain = train(([tensor.to(device) for tensor in batch] for batch in loader), options.features, device)
    with hugepin.Context() as ctx, ctx.pool("pinned") as pool:
        staging = Staging(loader, pool, device)
        staged = train(staging, options.features, device)
        stats = pool.stats()
        print(f"{len(staged)} batches through {stats.active_blocks} pinned buffers of together {stats.requested_bytes} "
              f"bytes, {stats.allocs} allocations; loss {staged[0]:.4f} to {staged[-1]:.4f}")
    if staged != plain:
        sys.exit("loader.py: the losses differ from those without staging")


if __name__ == "__main__":
    main()
