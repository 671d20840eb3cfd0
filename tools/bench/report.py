# SPDX-License-Identifier: MIT
"""The table on the terminal; the results as JSON, and what they were made of beside them."""

import json
import os
import platform
import sys
import time

COLUMNS = "{:<14} {:<28} {:>2} {:>11} {:>11} {:<10} {:>9} {:>7}  {:<12} {}"
PROGRESS_S = 20     # how often a line of progress where there is no terminal

last_progress = time.monotonic()


def progress(text):
    global last_progress    # pylint: disable=global-statement
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:120]}", end="", file=sys.stderr, flush=True)
    elif text and time.monotonic() - last_progress > PROGRESS_S:
        last_progress = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def heading():
    print(COLUMNS.format("bench", "case", "t", "hugepin", "best peer", "", "ratio", "target", "unit", ""))


def number(value):
    return "" if value is None else f"{value:.3g}" if abs(value) < 10 else f"{value:,.0f}"


def verdict(result):
    return {None: "", True: "ok", False: "below"}[result["ok"]]


def row(result):
    progress("")
    best = result["best_peer"]
    print(COLUMNS.format(result["bench"], result["case"], result["threads"], number(result["hugepin"]),
                         number(result["peers"].get(best)), best or "", number(result["ratio"]),
                         number(result["target"]), result["unit"], verdict(result)).rstrip(), flush=True)


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
    return {"processor": processor(), "cpus": len(os.sched_getaffinity(0)), "kernel": ".".join(platform.release().split(".")[:2]),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "huge_pages": huge_pages(),
            "load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}


def dump(path, content):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(content, f, indent="\t")
        f.write("\n")


def write(path, rows, the_machine, method):
    dump(path, {"machine": the_machine, "results": [r.result() for r in rows]})
    dump(os.path.join(os.path.dirname(path), "details.json"), {"method": method, "rows": [r.details() for r in rows]})


def summary(rows, notes, failures, seconds, path):
    judged = [r.result() for r in rows if r.result()["ok"] is not None]
    for failure in failures:
        print(f"NOT MEASURED: {failure}")
    for reason in sorted({f"{peer}: {why}" for r in rows for peer, why in r.left_out.items()} | notes):
        print(f"left out: {reason}")
    print(f"{sum(r['ok'] for r in judged)} of {len(judged)} reach their target; {seconds:.0f} s; {path}")
