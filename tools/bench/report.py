# SPDX-License-Identifier: MIT
"""The table on the terminal, and the results as JSON."""

import json
import os
import platform
import sys
import time

COLUMNS = "{:<16} {:<14} {:>2} {:>11} {:>11} {:<10} {:>7} {:>7}  {}"


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def heading():
    print(COLUMNS.format("bench", "case", "t", "hugepin", "best peer", "", "ratio", "target", ""))


def number(value):
    return f"{value:.3g}" if value < 10 else f"{value:,.0f}"


def row(result):
    progress("")
    best = result.get("best_peer")
    print(COLUMNS.format(result["bench"], result["case"], result["threads"], number(result["hugepin"]),
                         number(result["peers"][best]) if best else "", best or "",
                         f"{result['ratio']:.2f}" if "ratio" in result else "",
                         f"{result['target']:.2f}" if "target" in result else "",
                         "" if "ok" not in result else "ok" if result["ok"] else "below"), flush=True)


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def huge_pages():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as f:
        thp = f.read().split("[")[1].split("]")[0]
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", encoding="ascii") as f:
        return {"transparent": thp, "hugetlb_2m": int(f.read())}


def machine():
    return {"processor": processor(), "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "huge_pages": huge_pages(),
            "load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}


def write(path, results, method):
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"machine": machine(), "method": method, "results": results}, f, indent="\t")
        f.write("\n")


def summary(results, seconds, path):
    judged = [r for r in results if "ok" in r]
    for reason in sorted({f"{peer}: {why}" for r in results for peer, why in r["left_out"].items()}):
        print(f"left out: {reason}")
    print(f"{sum(r['ok'] for r in judged)} of {len(judged)} reach their target; {seconds:.0f} s; {path}")
