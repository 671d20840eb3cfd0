# SPDX-License-Identifier: MIT
"""Memory that our modules have lost, on kernels with kmemleak (7-debug): scanning, and whose a report is.

kmemleak knows an allocation by who made it. While a module is loaded its functions stand in the report; afterwards only
their addresses do, so the symbols are asked for before.
"""
import bisect
import io
import re

# Reported is what is older than five seconds, and what two scans find unreferenced and unchanged.
SCAN = r"""
cd /sys/kernel/debug && [ -e kmemleak ] || exit 0
echo scan >kmemleak && sleep 6 && echo scan >kmemleak && cat kmemleak
"""
SYMBOLS = r"""
[ -e /sys/kernel/debug/kmemleak ] || exit 0
grep '\[hugepin' /proc/kallsyms || :
"""
SECONDS = 400       # each scan reads all of the machine's memory map
LONGEST = 0x4000    # no function of ours is longer: what is further from one belongs to another module

OURS = re.compile(r"\[hugepin\w*\]")
ADDRESS = re.compile(r"\b0x([0-9a-f]{16})$", re.M)


class Leaks:
    def __init__(self, run):
        self.run = run          # run(script, timeout, out) -> exit status
        self.names = {}         # address -> function of our modules
        self.addresses = []
        self.seen = set()       # objects that were shown already
        self.elsewhere = 0      # reports of the last scan that do not mention us

    def _ask(self, script):
        out = io.BytesIO()
        status = self.run(script, SECONDS, out)
        return out.getvalue().decode("utf-8", "replace") if status == 0 else None

    def find(self):
        """Reports not seen before that mention our modules; None where kmemleak cannot tell."""
        symbols = self._ask(SYMBOLS)
        if symbols is None:
            return None
        for address, _, name, module in (row.split() for row in symbols.splitlines()):
            self.names[int(address, 16)] = f"{name} {module}"
        self.addresses = sorted(self.names)
        text = self._ask(SCAN)
        if text is None:
            return None
        reports = ["unreferenced object" + part.rstrip() for part in text.split("unreferenced object")[1:]]
        ours = [report for report in map(self._named, reports) if OURS.search(report)]
        self.elsewhere = len(reports) - len(ours)
        fresh = [report for report in ours if report.split("\n")[0] not in self.seen]
        self.seen.update(report.split("\n")[0] for report in fresh)
        return fresh

    def _named(self, report):
        return ADDRESS.sub(self._name, report)

    def _name(self, match):
        address = int(match[1], 16)
        at = bisect.bisect_right(self.addresses, address) - 1
        offset = address - self.addresses[at]
        if at < 0 or offset > LONGEST:
            return match[0]
        return f"{self.names[self.addresses[at]]}+{offset:#x}"
