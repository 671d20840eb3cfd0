# SPDX-License-Identifier: MIT
"""Memory that our modules have lost, on kernels with kmemleak (7-debug): scanning, and whose a report is.

kmemleak knows an allocation by who made it. While a module is loaded its functions stand in the report; afterwards, and
for what ran at loading only, bare addresses do. So the symbols are asked for before unloading.
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
grep -i ' t .*\[hugepin' /proc/kallsyms || :
"""
SECONDS = 400       # each scan reads all of the machine's memory map

# A bare address where modules lie: the kernel's own code and other modules have names.
ADDRESS = re.compile(r"\b0x(ffffffff[a-f][0-9a-f]{7})$", re.M)
OURS = re.compile(r"\[hugepin\w*\]|" + ADDRESS.pattern, re.M)


class Leaks:
    def __init__(self, run):
        self.run = run          # run(script, timeout, out) -> exit status
        self.names = {}         # address -> function of our modules and which module
        self.addresses = []
        self.seen = set()       # objects that were shown already
        self.elsewhere = 0      # reports of the last scan that are not ours

    def _ask(self, script):
        out = io.BytesIO()
        status = self.run(script, SECONDS, out)
        return out.getvalue().decode("utf-8", "replace") if status == 0 else None

    def find(self):
        """Reports not given before that are our modules'; None where kmemleak does not answer."""
        symbols, text = self._ask(SYMBOLS), self._ask(SCAN)
        if symbols is None or text is None:
            return None
        for address, _, name, module in (row.split() for row in symbols.splitlines()):
            self.names[int(address, 16)] = (name, module)
        self.addresses = sorted(self.names)
        reports = ["unreferenced object" + part.rstrip() for part in text.split("unreferenced object")[1:]]
        ours = [report for report in reports if OURS.search(report)]
        self.elsewhere = len(reports) - len(ours)
        fresh = [report for report in ours if report.split("\n")[0] not in self.seen]
        self.seen.update(report.split("\n")[0] for report in fresh)
        return [ADDRESS.sub(self._name, report) for report in fresh]

    def _name(self, match):
        address = int(match[1], 16)
        at = bisect.bisect_right(self.addresses, address)
        if not at:
            return match[0]
        start, (name, module) = self.addresses[at - 1], self.names[self.addresses[at - 1]]
        # Behind a module's last function there is only the rest of its page.
        inside = at < len(self.addresses) and self.names[self.addresses[at]][1] == module
        if not inside and start >> 12 != address >> 12:
            return match[0]
        return f"{name}+{address - start:#x} {module}"
