# SPDX-License-Identifier: MIT
"""Plots of the results, as SVG and PNG beside them, by gnuplot."""

import json
import os
import shutil
import subprocess

# File, title, benches, axis. Each is a group of bars a case, a bar for hugepin and for each peer.
BARS = (
    ("pool_pair", "One allocation and one free", ("pool_pair",), "ns"),
    ("pool_pair_touch", "One allocation and one free, the block written to", ("pool_pair_touch",), "ns"),
    ("pool_worst", "The slowest of 10,000 pairs", ("pool_worst",), "ns"),
    ("remote_free", "Allocated by one thread, freed by another", ("remote_free",), "ns a block"),
    ("trace", "A recorded PyTorch run", ("trace",), "s"),
    ("gather", "Reading random lines of a table", ("gather",), "ns a line"),
    ("bringup", "Until as much memory is ready, reserve clean", ("bringup",), "ms"),
    ("bringup_dirty", "Until as much memory is ready, reserve dirty", ("bringup_dirty",), "ms"),
    ("pin", "Pinning 1 GiB", ("pin",), "ms"),
)
COLOURS = ("#1b6ca8", "#e07b39", "#7a9e4b", "#b04a5a", "#8468a8", "#8c7355", "#4fa3a5", "#c9a227")

STYLE = """
set encoding utf8
set border 3 lc rgb "#666666"
set tics nomirror textcolor rgb "#333333"
set grid ytics lc rgb "#dddddd" lt 1
set key outside right top textcolor rgb "#333333"
set title textcolor rgb "#222222"
"""


def quoted(text):
    return '"' + text.replace("_", "\\\\_") + '"'


def name_of(result):
    return result["case"] + (f", {result['threads']} threads" if result["threads"] > 1 else "")


def bars(title, results, axis):
    """gnuplot's commands for groups of bars on a logarithmic axis."""
    who = ["hugepin"] + sorted({peer for r in results for peer in r["peers"]})
    lines = [STYLE, f"set title {quoted(title)}", f"set ylabel {quoted(axis)}", "set logscale y",
             'set format y "%.10g"', "set style data histograms", "set style histogram clustered gap 1", "set style fill solid 1.0 noborder",
             "set boxwidth 0.9", "set xtics rotate by -25 scale 0", "$data << END"]
    for result in results:
        values = {"hugepin": result["hugepin"], **result["peers"]}
        heights = [f"{values[w]:.6g}" if values.get(w) else "NaN" for w in who]
        lines.append(" ".join([quoted(name_of(result)), *heights]))
    lines.append("END")
    columns = [f"$data using {i + 2}:xtic(1) title {quoted(w)} lc rgb \"{COLOURS[i % len(COLOURS)]}\""
               for i, w in enumerate(who)]
    return "\n".join(lines + ["plot " + ", ".join(columns)]) + "\n"


def targets(results):
    """A point a row: its ratio as a multiple of what is wanted of it."""
    lines = [STYLE, 'set title "Ratio to the target: from 1 on it is reached"', "set logscale x", "unset key",
             'set format x "%.10g"', "set grid xtics ytics", f"set yrange [{len(results) - 0.5}:-0.5]",
             "set arrow from 1, graph 0 to 1, graph 1 nohead lw 2 lc rgb \"#b04a5a\"", "$data << END"]
    for place, result in enumerate(results):
        lines.append(f"{result['ratio'] / result['target']:.6g} {place} {1 if result['ok'] else 0} "
                     f"{quoted(result['bench'] + ': ' + name_of(result))}")
    lines += ["END", "plot $data using 1:2:($3 > 0 ? 0x1b6ca8 : 0xb04a5a):ytic(4) "
              "with points pt 7 ps 0.8 lc rgb variable"]
    return "\n".join(lines) + "\n"


TERMINALS = {"svg": "svg size {},{} font 'sans,12' background '#ffffff'",
             "png": "pngcairo size {},{} font 'sans,10' background '#ffffff'"}


def gnuplot(commands, path, size, endings):
    for ending in endings:
        script = f"set terminal {TERMINALS[ending].format(*size)}\nset output '{path}.{ending}'\n{commands}"
        result = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True, check=False)
        if result.returncode:
            raise RuntimeError(f"gnuplot: {result.stderr.strip()}")


def draw_all(results, folder, endings=tuple(TERMINALS), only=None):
    """All plots that the results give, or only these."""
    os.makedirs(folder, exist_ok=True)
    for name, title, benches, axis in BARS:
        chosen = [r for r in results if r["bench"] in benches and r["unit"] != "mapped/live"]
        if chosen and (only is None or name in only):
            gnuplot(bars(title, chosen, axis), os.path.join(folder, name), (320 + 150 * len(chosen), 420), endings)
    judged = [r for r in results if r["ok"] is not None and r["ratio"]]
    if judged and (only is None or "targets" in only):
        gnuplot(targets(judged), os.path.join(folder, "targets"), (900, 120 + 18 * len(judged)), endings)


def draw(path):
    """The plots of the results at path, beside them; False without gnuplot."""
    if not shutil.which("gnuplot"):
        return False
    with open(path, encoding="utf-8") as f:
        draw_all(json.load(f)["results"], os.path.dirname(os.path.abspath(path)))
    return True
