# SPDX-License-Identifier: MIT
"""The allocators that hugepin is compared with, each as it comes and as its users set it up to keep memory.

A setting is environment for one worker process. Where an allocator has several, the fastest counts in every case.
"""

import ctypes.util
import os

LIBRARIES = {"mimalloc": "libmimalloc.so.2", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "tbb": "libtbbmalloc.so.2", "memkind": "libmemkind.so.0", "dpdk": "librte_eal.so.23"}

# Room for the thread-local variables of a library that is loaded late.
STATIC_TLS = "glibc.rtld.optional_static_tls=16384"

TERABYTE = 1 << 40

QUICK = ("hugepin", "glibc", "mimalloc", "jemalloc", "tcmalloc")        # the best peer has been among these

SETTINGS = {
    "hugepin": {"default": {}},
    "glibc": {
        "default": {},
        "keeping": {"GLIBC_TUNABLES": f"glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={TERABYTE}:"
                                      "glibc.malloc.hugetlb=1"},
    },
    "mimalloc": {
        "default": {},
        "keeping": {"MIMALLOC_PAGE_RESET": "0", "MIMALLOC_ALLOW_DECOMMIT": "0", "MIMALLOC_LARGE_OS_PAGES": "1",
                    "MIMALLOC_RESERVE_OS_MEMORY": "2097152"},
    },
    "jemalloc": {
        "default": {},
        "keeping": {"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_tcache_max:23,oversize_threshold:0,"
                                   "thp:always"},
    },
    "tcmalloc": {
        "default": {},
        "keeping": {"TCMALLOC_RELEASE_RATE": "0", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "1073741824"},
    },
    "tbb": {
        "default": {},
        "keeping": {"BENCH_TBB_HUGE_SIZE_THRESHOLD": str(TERABYTE), "TBB_MALLOC_USE_HUGE_PAGES": "1"},
    },
    "memkind": {"hugetlb": {}},
    "dpdk": {"no-huge": {"BENCH_DPDK_NO_HUGE": "1"}, "hugetlb": {}},
}


def free_huge_pages():
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", encoding="ascii") as f:
        return int(f.read())


def missing(peer):
    """Why a peer cannot be measured here, or None."""
    library = LIBRARIES.get(peer)
    if library:
        try:
            ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_LOCAL)
        except OSError as error:
            if "static TLS" not in str(error):
                return f"no {library}"
    if peer == "memkind" and not free_huge_pages():
        return "no free 2M pages for its hugetlb kind"
    return None


def environment(settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC", "MIMALLOC", "TCMALLOC", "TBB", "LD_"))}
    env.update(settings)
    tunables = settings.get("GLIBC_TUNABLES")
    env["GLIBC_TUNABLES"] = f"{tunables}:{STATIC_TLS}" if tunables else STATIC_TLS
    return env


def variants(peers, **more):
    """(peer, setting, environment) of all that can run, and what is left out with the reason."""
    found, left_out = [], {}
    for peer in peers:
        reason = missing(peer)
        if reason:
            left_out[peer] = reason
            continue
        found += [(peer, setting, environment({**env, **more})) for setting, env in SETTINGS[peer].items()]
    return found, left_out
