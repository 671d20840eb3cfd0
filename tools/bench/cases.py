# SPDX-License-Identifier: MIT
"""What is measured: each case with its worker, its sizes and the ratio it must reach."""

import dataclasses

KIB, MIB = 1 << 10, 1 << 20

# Warm-ups are long enough for the largest sum of live blocks to have been seen, so that nothing grows while it is measured,
# and for a pool to know that it has stopped growing.
PAIR_SIZES = {  # name: smallest, largest, live blocks of a thread, operations of one repetition and before the first
    "256B-64K": (256, 64 * KIB, 1024, 200000, 2000000),
    "64K-1M": (64 * KIB, MIB, 256, 50000, 2000000),
    "1M-64M": (MIB, 64 * MIB, 16, 10000, 40000),
}
# What does fewer operations by so much, and why: DPDK zeroes a block when it is freed, all of it.
SLOW = {"dpdk": 50}
TOUCH_OPERATIONS = {"256B-64K": 20000, "64K-1M": 1000, "1M-64M": 24}


@dataclasses.dataclass
class Case:
    bench: str
    case: str
    worker: str             # which measurement of hugepin-bench
    arguments: dict
    threads: int = 1
    unit: str = "ns"
    target: float = 1.0     # best peer over hugepin, at least
    against: str = "all"    # which settings of the peers count: all, default, keeping
    touch: bool = False
    alone: bool = False     # only hugepin is measured: the bound is between two of its own results, or on one
    quick: bool = True      # part of bench-quick
    bound: float = None     # alone: the value may be at most this
    settings: dict = dataclasses.field(default_factory=dict)    # alone: environment

    def command(self, peer):
        arguments = dict(self.arguments)
        for key in ("operations", "warm_up", "grow"):
            if peer in SLOW and key in arguments:
                arguments[key] = max(arguments[key] // SLOW[peer], 1)
        words = [f"{key}={value}" for key, value in arguments.items()]
        return [self.worker, f"threads={self.threads}", *words, *(["touch"] if self.touch else [])]


def pair(name, threads, **more):
    low, high, live, operations, warm_up = PAIR_SIZES[name]
    arguments = {"min": low, "max": high, "live": live, "operations": operations, "warm_up": warm_up}
    return Case(case=name, threads=threads, worker="pair", arguments=arguments, **more)


def touched(name, threads, **more):
    case = pair(name, threads, bench="pool_pair_touch", touch=True, **more)
    case.arguments["operations"] = TOUCH_OPERATIONS[name]
    case.arguments["grow"] = case.arguments["warm_up"]
    case.arguments["warm_up"] = 4 * TOUCH_OPERATIONS[name]
    return case


def holes(count):
    return Case("holes", f"{count} holes", "holes", {"min": 16 * KIB, "max": 32 * KIB, "live": count,
                "operations": 100000, "warm_up": 200000}, alone=True)


def bookkeeping(size, live):
    return Case("bookkeeping", f"{size // KIB} KiB" if size >= KIB else f"{size} B", "bookkeeping",
                {"min": size, "max": size, "live": live, "operations": 1}, unit="bytes/block", alone=True,
                settings={"HUGEPIN_HOST_LADDER": "base"})


def all_cases(shorter=1):
    """@shorter: divides the operations of a repetition."""
    cases = []
    for name, target in (("256B-64K", 1.0), ("64K-1M", 3.0), ("1M-64M", 5.0)):
        for threads in (1, 2):
            cases.append(pair(name, threads, bench="pool_pair", target=target))
    for name in PAIR_SIZES:
        for threads in (1, 2):
            cases.append(touched(name, threads, against="keeping", quick=threads == 1))
    for threads in (1, 2):
        case = touched("1M-64M", threads, against="default", target=10.0, quick=threads == 1)
        case.case += ", defaults"
        cases.append(case)
    for name in PAIR_SIZES:
        case = pair(name, 1, bench="pool_worst")
        case.worker = "worst"
        case.arguments["operations"] //= 2
        case.unit = "ns, 99.99 %"
        cases.append(case)
    for name in PAIR_SIZES:
        case = pair(name, 2, bench="remote_free")
        case.worker = "remote"
        case.arguments["operations"] //= 2
        case.quick = name != "1M-64M"
        cases.append(case)
    cases += [holes(count) for count in (4096, 16384, 65536)]
    cases.append(Case("limits", "1000000 blocks", "limits", {"min": 256, "max": 512, "live": 1000000,
                      "operations": 1}, unit="last tenth / first", alone=True, bound=1.5))
    cases += [bookkeeping(256, 1000000), bookkeeping(16 * KIB, 32768), bookkeeping(64 * KIB, 16384)]
    for case in cases:
        case.arguments["operations"] = max(case.arguments["operations"] // shorter, 1)
    return cases
