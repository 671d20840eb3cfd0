# SPDX-License-Identifier: MIT
"""A row of the results: the medians, who is best beside hugepin, and whether the target is reached."""

import dataclasses
import statistics


@dataclasses.dataclass
class Row:
    """What results.json has of a measurement, and what details.json has besides."""
    bench: str
    case: str
    threads: int
    unit: str
    values: dict                        # of hugepin and each peer: what was measured, in order
    target: float = None                # None: reported only
    rate: bool = False                  # more is better
    against: tuple = None               # the peers that count; None: all
    bound: float = None                 # without peers: hugepin's value may be at most this
    settings: dict = dataclasses.field(default_factory=dict)
    left_out: dict = dataclasses.field(default_factory=dict)

    def medians(self):
        medians = {who: statistics.median(values) for who, values in self.values.items()}
        return medians.pop("hugepin"), medians

    def best(self):
        """The peer that counts, or None."""
        _, peers = self.medians()
        peers = {p: v for p, v in peers.items() if self.against is None or p in self.against}
        if not peers:
            return None
        return (max if self.rate else min)(peers, key=peers.get)

    def ratio(self):
        """More is better, whatever the unit."""
        own, peers = self.medians()
        best = self.best()
        other = self.bound if self.bound is not None else peers.get(best)
        if other is None or not own or not other:
            return None
        return own / other if self.rate else other / own

    def result(self):
        own, peers = self.medians()
        ratio = self.ratio()
        target = 1.0 if self.bound is not None else self.target
        return {"bench": self.bench, "case": self.case, "threads": self.threads, "hugepin": own, "unit": self.unit,
                "peers": peers, "best_peer": self.best(), "ratio": None if ratio is None else float(f"{ratio:.4g}"),
                "target": target, "ok": None if target is None or ratio is None else ratio >= target}

    def details(self):
        return {"bench": self.bench, "case": self.case, "threads": self.threads, "settings": self.settings,
                "left_out": self.left_out, "values": self.values,
                "spread": {who: round(spread(values), 3) for who, values in self.values.items()}}


def spread(values):
    """Half of the results lie in this part of their median."""
    if len(values) < 4 or not statistics.median(values):
        return 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / statistics.median(values)


def fastest(variants):
    """Of {(peer, setting): values} for each peer the setting that is best: values and settings by peer."""
    values, settings = {}, {}
    for (peer, setting), measured in variants.items():
        if peer not in values or statistics.median(measured) < statistics.median(values[peer]):
            values[peer], settings[peer] = measured, setting
    return values, settings
