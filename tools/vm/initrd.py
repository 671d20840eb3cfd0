# SPDX-License-Identifier: MIT
"""The machine's file system: cpio archives ("newc") that the kernel unpacks one after the other.

The base (busybox, agent) changes rarely and the project's build with its libraries often, so they are archives of
their own, kept in the cache under a hash of what they were made from. The kernel unpacks uncompressed ones quickest.
"""
import glob
import hashlib
import json
import lzma
import os
import re
import stat
import subprocess
import tempfile

STRIP_BYTES = 1 << 20   # debug information is dropped from larger programs
KEPT_LAYERS = 8
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
PYTHON_UNUSED = {"test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "__pycache__",
                 "dist-packages"}


class Missing(Exception):
    """Something that the machine needs is not there; the text says what to do."""


class Archive:
    """A cpio archive in the making; folders above a file come by themselves."""

    def __init__(self, out):
        self.out = out
        self.names = set()
        self.inode = 0

    def _entry(self, name, mode, data=b"", mtime=0, device=(0, 0)):
        if name in self.names:
            return
        self.names.add(name)
        self.inode += 1
        path = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, int(mtime), len(data), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self.out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    @staticmethod
    def place(name):
        """A path as it is stored: /lib/x and /usr/lib/x are one file where /usr is merged."""
        first, _, rest = os.path.normpath("/" + name).lstrip("/").partition("/")
        return MERGED[first] + "/" + rest if first in MERGED and rest else first + ("/" + rest if rest else "")

    def folder(self, name):
        name = self.place(name)
        if name and name not in self.names:
            self.folder(os.path.dirname(name))
            self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o755, mtime=0):
        name = self.place(name)
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data, mtime)

    def link(self, name, target):
        self.folder(os.path.dirname(name))
        self._entry(name.lstrip("/"), stat.S_IFLNK | 0o777, target.encode())

    def console(self):
        self.folder("dev")
        self._entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))

    def end(self):
        self._entry("TRAILER!!!", 0)
        self.out.write(b"\0" * (-self.out.tell() % 512))


def cached(cache, name, key, write):
    """The path of the archive NAME-KEY in the cache, made by write(Archive) when it is not there."""
    folder = os.path.join(cache, "vm")
    path = os.path.join(folder, f"{name}-{key[:24]}.cpio")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(path):
        os.utime(path)
        return path
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as out:
        archive = Archive(out)
        write(archive)
        archive.end()
    os.rename(out.name, path)
    old = sorted(glob.glob(os.path.join(folder, name + "-*.cpio")), key=os.path.getmtime, reverse=True)
    for stale in old[KEPT_LAYERS:]:
        os.unlink(stale)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def base(cache, here):
    """busybox under all its names; the agent as init."""
    busybox = "/bin/busybox"
    parts = [os.path.join(here, "agent.c"), os.path.join(here, "initrd.py"), busybox]
    key = hashlib.sha256(b"".join(map(read, parts))).hexdigest()

    def write(archive):
        agent = tempfile.mktemp(prefix="hugepin-agent.")
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-o", agent, os.path.join(here, "agent.c")],
                       check=True)
        archive.console()
        for folder in ("proc", "sys", "tmp", "run/lock", "mnt", "root", "etc", "var/tmp", *MERGED.values()):
            archive.folder(folder)
        for name, target in MERGED.items():
            archive.link(name, target)
        archive.file("init", read(agent))
        os.unlink(agent)
        archive.file("usr/bin/busybox", read(busybox))
        for applet in subprocess.check_output([busybox, "--list-full"], text=True).split():
            folder = "usr/sbin" if "sbin" in applet else "usr/bin"
            archive.link(f"{folder}/{os.path.basename(applet)}", "/usr/bin/busybox")
        archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n"
                     b"other:x:1001:1001:other:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", 0o644)
        archive.file("etc/group", b"root:x:0:\nuser:x:1000:\nother:x:1001:\nnogroup:x:65534:\n", 0o644)
        archive.file("etc/hosts", b"127.0.0.1 localhost hugepin\n", 0o644)

    return cached(cache, "base", key, write)


def below(folder, unused=()):
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in unused)
        for name in sorted(files):
            yield os.path.join(path, name)


def build_files(root):
    """The project's programs, libraries and tests."""
    build = os.path.join(root, "build")
    for folder in ("bin", "lib", "tests"):
        for path in below(os.path.join(build, folder)):
            if os.access(path, os.X_OK) or ".so" in os.path.basename(path):
                yield path, path


def interpreters(path):
    """What a script's first line asks for, unless busybox is that."""
    with open(path, "rb") as file:
        line = file.read(200).split(b"\n")[0].decode("utf-8", "replace")
    words = re.findall(r"[^\s/]+(?=\s|$)", line) if line.startswith("#!") else []
    for name in words:
        if name in ("bash", "perl") or name.startswith("python3"):
            return ["/usr/bin/" + name]
    return []


def python_files():
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    yield "/usr/bin/python3"
    yield from below("/usr/lib/" + version, PYTHON_UNUSED)


def libraries(root, paths):
    """Shared libraries that the programs need, as ldd names them."""
    elf = [path for path in paths if read_start(path) == b"\x7fELF"]
    if not elf:
        return set()
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(root, "build", "lib"), LC_ALL="C")
    text = subprocess.run(["ldd", *elf], capture_output=True, text=True, env=environment).stdout
    lost = sorted(set(re.findall(r"(\S+) => not found", text)))
    if lost:
        raise Missing(f"not found on this machine, though a program to take along needs it: {', '.join(lost)}")
    found = set(re.findall(r"(/\S+) \(0x", text))
    # glibc loads this one by itself when a thread is cancelled or exits
    return found | set(glob.glob("/lib/x86_64-linux-gnu/libgcc_s.so.1") if found else [])


def read_start(path):
    with open(path, "rb") as file:
        return file.read(4)


def content(path):
    if os.path.getsize(path) <= STRIP_BYTES or read_start(path) != b"\x7fELF":
        return read(path)
    stripped = tempfile.mktemp(prefix="hugepin-strip.")
    if subprocess.run(["strip", "--strip-debug", "-o", stripped, path], capture_output=True).returncode:
        return read(path)
    data = read(stripped)
    os.unlink(stripped)
    return data


def take_list(taken):
    """--take FILE[:DEST]: pairs of path there and path here; folders with all that is in them."""
    for item in taken:
        path, _, target = item.partition(":")
        if not os.path.exists(path):
            raise Missing(f"--take {path}: no such file")
        target = os.path.join(os.getcwd(), target) if target else os.path.abspath(path)
        if not os.path.isdir(path):
            yield target, path
        else:
            for file in below(path):
                if os.path.isfile(file):
                    yield os.path.normpath(os.path.join(target, os.path.relpath(file, path))), file


def identity(path):
    info = os.stat(path)
    return [path, info.st_size, info.st_mtime_ns, info.st_mode]


def project(cache, root, taken, folder, python):
    """The build, what was asked for by --take, and all the libraries and interpreters those need."""
    files = dict(build_files(root))
    files.update(take_list(taken))
    wanted = [[target, *identity(path)] for target, path in sorted(files.items())]
    key = hashlib.sha256(json.dumps(["2", folder, python, wanted]).encode()).hexdigest()

    def write(archive, needs):
        archive.folder(folder)
        for target, path in sorted(files.items()):
            archive.file(target, content(path), os.stat(path).st_mode & 0o7777, os.stat(path).st_mtime)
        for path, *_ in needs:
            archive.file(path, content(path), os.stat(path).st_mode & 0o7777, os.stat(path).st_mtime)

    # Libraries are known only after asking ldd, which takes a while: remembered with their identities.
    note = os.path.join(cache, "vm", f"project-{key[:24]}.cpio.needs")
    try:
        needs = json.loads(read(note))
        if all(identity(need[0]) == need for need in needs):
            return cached(cache, "project", key, lambda archive: write(archive, needs))
    except (OSError, ValueError):
        pass

    more = {path for file in files.values() for path in interpreters(file)}
    if python or any("python3" in path for path in more):
        more.update(python_files())
    for path in more:
        if not os.path.exists(path):
            raise Missing(f"{path}, which a script to take along needs, is not on this machine")
    more |= libraries(root, [*files.values(), *more])
    needs = [identity(path) for path in sorted(more)]
    stale = os.path.join(cache, "vm", f"project-{key[:24]}.cpio")
    if os.path.exists(stale):
        os.unlink(stale)
    os.makedirs(os.path.dirname(note), exist_ok=True)
    with open(note, "w") as file:
        json.dump(needs, file)
    for old in glob.glob(os.path.join(cache, "vm", "*.needs")):
        if old != note and not os.path.exists(old[:-len(".needs")]):
            os.unlink(old)
    return cached(cache, "project", key, lambda archive: write(archive, needs))


def modules(out, files):
    """Append the modules to load, name there -> bytes."""
    archive = Archive(out)
    for name, data in files.items():
        archive.file("modules/" + name, data, 0o644)
    archive.end()


def kernel_modules(kernel, names):
    """Modules of the kernel itself with what they depend on, uncompressed, in the order to load them."""
    folder = os.path.join(kernel, "modules")
    needs, paths = {}, {}
    with open(os.path.join(folder, "modules.dep"), encoding="utf-8") as file:
        for row in file:
            path, _, rest = row.partition(":")
            name = os.path.basename(path).split(".")[0].replace("-", "_")
            needs[name], paths[name] = rest.split(), path
    with open(os.path.join(folder, "modules.builtin"), encoding="utf-8") as file:
        builtin = {os.path.basename(row.strip()).split(".")[0].replace("-", "_") for row in file}
    order = []
    for name in (name.replace("-", "_") for name in names):
        if name in builtin:
            continue
        if name not in needs:
            raise Missing(f"--modprobe {name}: this kernel has no such module; "
                                 "the flavour with every driver may: KERNEL-full")
        order += [path for path in [*reversed(needs[name]), paths[name]] if path not in order]
    files = {}
    for path in order:
        data = read(os.path.join(folder, path))
        files[os.path.basename(path).removesuffix(".xz")] = lzma.decompress(data) if path.endswith(".xz") else data
    return files
