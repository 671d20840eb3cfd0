#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The shortest program: a pinned array, what it really is, and everything given back."""
import hugepin

with hugepin.Context() as ctx, ctx.pool("pinned") as pool:
    array = pool.zeros((1024, 1024, 16), "float32")
    array += 1
    segment = pool.segment_of(array)
    print(f"{array.nbytes} bytes: pages of {segment.page_bytes} bytes, node {segment.node}, "
          f"registered with {segment.registered}, sum {array.sum():.0f}")
    del array       # or leave it: its memory then goes back with it
    stats = pool.stats()
    print(f"{stats.allocs} block taken, {stats.frees} given back, {stats.mapped_bytes} bytes mapped")
