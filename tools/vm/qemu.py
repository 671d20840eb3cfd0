# SPDX-License-Identifier: MIT
"""The machine that the options ask for, as QEMU's arguments."""
import re

from initrd import Missing


def size(text):
    match = re.fullmatch(r"(\d+)([MG]?)", text)
    if not match:
        raise Missing(f"not a size: {text} (512M, 2G)")
    return int(match[1]) << {"": 20, "M": 20, "G": 30}[match[2]]


# The emulator carries out "rep stosb" a byte at a time: without the features that make kernel and C library choose it,
# memory is zeroed ten times as fast.
CPU = "max,erms=off,fsrm=off,fzrm=off,fsrs=off,fsrc=off"


def spread(options):
    """Memory in bytes for each node, and the first and last CPU of each (None: a node without)."""
    if options.node_memory:
        memory = [size(item) for item in options.node_memory.split(",")]
    else:
        memory = [size(options.memory)] * options.nodes
    nodes, cpus = len(memory), options.cpus
    if not nodes or cpus < 1 or not memory[0]:
        raise Missing("at least one node, one CPU and memory on node 0")
    share = [cpus // nodes + (node < cpus % nodes) for node in range(nodes)]
    ranges, first = [], 0
    for count in share:
        ranges.append((first, first + count - 1) if count else None)
        first += count
    return memory, ranges


def arguments(options, image, archive):
    memory, cpus = spread(options)
    # A socket for each CPU: nodes that share one make the kernel complain about the topology.
    accelerator = ["-accel", "tcg,thread=multi"]
    if options.icount:
        accelerator = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
    command = [*accelerator, "-cpu", options.cpu, "-nodefaults", "-display", "none", "-no-user-config",
               "-no-reboot", "-name", "hugepin,process=qemu-hugepin", "-m", f"{sum(memory) >> 20}M",
               "-smp", f"{options.cpus},sockets={options.cpus}"]
    for node, (room, own) in enumerate(zip(memory, cpus)):
        numa = f"node,nodeid={node}"
        if room:
            command += ["-object", f"memory-backend-ram,id=memory{node},size={room},reserve=off"]
            numa += f",memdev=memory{node}"
        if own:
            numa += f",cpus={own[0]}-{own[1]}"
        command += ["-numa", numa]
    # An emulated CPU is slow: what the kernel calls a stall after 20 s may be work here. mitigations and the address
    # of the kernel make no difference to what is tested, only to the time it takes.
    kernel = ("console=ttyS0,115200 panic=-1 nokaslr mitigations=off printk.devkmsg=on random.trust_cpu=on "
              f"rcupdate.rcu_cpu_stall_timeout=60 watchdog_thresh=60 init_on_alloc={options.init_on_alloc} ")
    return command + ["-kernel", image, "-initrd", archive, "-append", kernel + options.append]
