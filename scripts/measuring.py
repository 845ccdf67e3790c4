"""What the measuring scripts here share: servers that are started pinned, loads from darter-bench, and whether the machine was quiet.

A server's words say where it listens by PORT. It ends with the script, by whatever way that ends. Nothing is measured here:
what counts, and in which order, is said in each script.
"""
import contextlib, glob, json, os, platform, shutil, socket, subprocess, sys, threading, time

from ports import free_port

# The fastest run of a server may be so many times its slowest; beyond that other work has disturbed one of them.
SPREAD_MAX = 1.25
# The share of its time from which on a generator is what limits the run.
GENERATOR_BUSY = 0.95
# How long a server may take to answer for the first time, and to end.
START_SECONDS_MAX, STOP_SECONDS_MAX = 120, 20
# With a larger share of the cores busy before anything runs, other work is on the machine.
BUSY_SHARE_MAX = 0.1
# Between two looks at the memory of a server.
LOOK_SECONDS = 0.05
CORES = sorted(os.sched_getaffinity(0))


def halves():
    """Cores for servers, and for the generator: half of them each, and the same one if there is one. Cores that share a unit stay together."""
    def unit(core):
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
                return file.read()
        except OSError:
            return str(core)

    units = {}
    for core in CORES:
        units.setdefault(unit(core), []).append(core)
    ordered = [core for together in units.values() for core in together]
    middle = max(len(ordered) // 2, 1)
    return ordered[:middle], ordered[middle:] or ordered


def some_of(text, known, parser):
    """Those of `known` that an option names, with commas between them; all if it names none. Ends the script if one is unknown."""
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            parser.error(f"unknown: {name}; there are {', '.join(known)}")
    return names


def busy_share():
    """The share of the machine's processor time that is used, or stolen by its host, while nothing of ours runs: over a second."""
    def times():
        with open("/proc/stat") as file:
            found = [int(word) for word in file.readline().split()[1:9]]
        idle, waiting = found[3:5]
        return sum(found), idle + waiting

    (all_before, idle_before), _, (all_after, idle_after) = times(), time.sleep(1), times()
    return 1 - (idle_after - idle_before) / max(all_after - all_before, 1)


def can_run_in_real_time():
    """Whether `chrt -f` is allowed: then what else runs on the machine disturbs less."""
    return subprocess.run(["chrt", "-f", "5", "true"], capture_output=True).returncode == 0


def pinned(command, cores, real_time):
    """The command on these cores, as words."""
    where = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    return [*(["chrt", "-f", "5"] if real_time else []), *where, *command]


def need(*tools):
    """Ends the script if one of these programs is missing."""
    for tool in tools:
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: run make setup programs")


class Server:
    """A server under test. `with` ends it; so does `stop`."""

    def __init__(self, words, cores=(), real_time=False, speaks_memcache=False):
        self.port, self.real_time = free_port(), real_time
        self.words = [word.replace("PORT", str(self.port)) for word in words]
        self.hello = (b"version\r\n", b"VERSION") if speaks_memcache else (b"PING\r\n", b"+PONG")
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = ["setpriv", "--pdeathsig", "TERM", "--", *pinned(self.words, cores, real_time)]
        self.process = subprocess.Popen(command, **quiet)
        limit = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.stop()
                sys.exit(f"does not answer: {' '.join(self.words)}")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
                line.sendall(self.hello[0])
                return line.recv(64).startswith(self.hello[1])
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cli(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True).stdout.strip()

    def cpu_seconds(self):
        """Processor time of all threads that live."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path) as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def kernel_seconds(self):
        """The part of that which it spent in the kernel, as far as the kernel knows."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/stat"):
            with open(path) as file:
                total += int(file.read().rsplit(") ", 1)[1].split()[12])
        return total / os.sysconf("SC_CLK_TCK")

    def bench(self, program, mode, *words, cores=(), accept_bad=False):
        """A run of darter-bench, as its report; ends the script if it failed (`accept_bad`: if there is no report)."""
        command = [program, mode, "-p", str(self.port), "--json", "-", *map(str, words)]
        ran = subprocess.run(pinned(command, cores, self.real_time), stdout=subprocess.PIPE, text=True)
        if not ran.stdout or (ran.returncode != 0 and not accept_bad):
            self.stop()
            sys.exit(f"failed: {' '.join(command)}\nagainst {' '.join(self.words)}")
        return json.loads(ran.stdout)


def encoded(requests):
    """Requests as they are sent."""
    parts = []
    for words in requests:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts.append(b"*%d\r\n" % len(words))
        parts.extend(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return b"".join(parts)


class Connection:
    """A connection that speaks RESP2, for what darter-bench does not send."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb", buffering=1 << 20)

    def send(self, requests):
        self.socket.sendall(encoded(requests))

    def reply(self):
        """Bytes, nothing, or a list of them; whole numbers, statuses and errors with their first byte."""
        line = self.file.readline()
        if line[:1] in b"+-:":
            return line[:-2]
        length = int(line[1:])
        if length < 0:
            return None
        return [self.reply() for _ in range(length)] if line[:1] == b"*" else self.file.read(length + 2)[:-2]

    def call(self, *words):
        self.send([words])
        return self.reply()

    def info(self, section, field):
        lines = self.call("INFO", section).decode().splitlines()
        return int(next(line.split(":")[1] for line in lines if line.startswith(field + ":")))


class MemoryWatch(threading.Thread):
    """The most memory that a process and its children have while this runs, in bytes."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.is_over = pid, 0, False

    def bytes(self):
        children = []
        for path in glob.glob(f"/proc/{self.pid}/task/*/children"):
            with contextlib.suppress(OSError), open(path) as file:
                children += file.read().split()
        total = 0
        for pid in [self.pid, *children]:
            # A child may end meanwhile.
            with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        return total

    def run(self):
        while not self.is_over:
            self.most = max(self.most, self.bytes())
            time.sleep(LOOK_SECONDS)

    def stop(self):
        self.is_over = True
        self.join()
        return self.most


def darter_with(threads):
    """What Darter with so many threads is called in tables."""
    return f"Darter, {threads} thread{'s' * (threads > 1)}"


def machine():
    """Processor, cores, memory, kernel."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        kibibytes = int(file.readline().split()[1])
    model = models[0] if models else platform.machine()
    return f"{model}, {len(CORES)} cores, {kibibytes / 2**20:.0f} GiB, {platform.system()} {platform.release()}"


def version(program):
    """What a server says of itself."""
    ran = subprocess.run([program, "--version"], capture_output=True, text=True)
    return (ran.stdout or ran.stderr).strip().splitlines()[0]


def spread(values):
    """How many times its smallest the largest of a server's runs is."""
    return max(values) / min(values) if min(values) > 0 else float("inf")


def markdown(head, rows):
    """A table, its columns aligned."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
