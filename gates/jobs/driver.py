"""Tests the workers of each client. `account` kills workers by SIGKILL while they work, and accounts for every job. Each other test is
about one thing that a worker meets: it outlives its lease, the server is away, its queues have an order, it has to stop.

A worker appends a line `start ID` and, when it has done the job, `done ID` to the file RUNS. A killed worker's job has to
run again elsewhere; no other may.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "gates/jobs"
JOBS, WORKERS, KILLS, LEASE_SECONDS = 300, 2, 4, 2
SECONDS_MAX = 60
# What a job takes whose worker is stopped meanwhile; the other one is to be at it when the first one goes on.
OUTLIVED_SECONDS = 4
CLIENTS = {
    "Python": [sys.executable, str(HERE / "worker.py")],
    "Node with ioredis": ["node", str(HERE / "worker.js"), "ioredis"],
    "Node with node-redis": ["node", str(HERE / "worker.js"), "redis"],
    "Go": [str(ROOT / ".cache/gates/jobs/go-worker")],
} | {f"Sidekiq {version}": ["ruby", str(HERE / "sidekiq.rb"), version] for version in os.environ.get("SIDEKIQ", "6 7").split()}


def payload(number, queue):
    """A job of Sidekiq, which the others read for its id only."""
    job = {"class": "Leased", "args": [], "retry": True, "queue": queue, "jid": f"{number:024x}"}
    return json.dumps(job | {"created_at": time.time(), "enqueued_at": time.time()})


class Shop:
    """Workers of one client, on an empty server, and the file in which they note what they do."""

    QUEUE = "queue:mail"

    def __init__(self, url, command, folder, work_seconds, queue=QUEUE, **more):
        self.client = redis.Redis.from_url(url)
        self.client.flushall()
        self.command, self.folder, self.runs, self.workers = command, folder, folder / "runs", []
        self.runs.write_text("")
        self.environment = os.environ | {
            "REDIS_URL": url, "RUNS": str(self.runs), "QUEUE": queue, "LEASE_SECONDS": str(LEASE_SECONDS),
            "WORK_SECONDS": str(work_seconds),
            "NODE_PATH": str(ROOT / ".cache/gates/node/node_modules"), "PYTHONPATH": str(ROOT / "clients/python"),
        } | more

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            worker = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log, cwd=self.folder)
        self.workers.append(worker)
        return worker

    def push(self, count, begin=0, queue=QUEUE):
        self.client.lpush(queue, *[payload(number, "mail") for number in range(begin, begin + count)])
        self.client.sadd("queues", "mail")

    def calls(self, command):
        return self.client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]

    def lines(self):
        return [line.split() for line in self.runs.read_text(errors="backslashreplace").splitlines()]

    def noted(self, word, worker=None):
        """The jobs that were started or done, by this worker or by any."""
        return [line[1] for line in self.lines() if line[0] == word and (worker is None or line[2] == str(worker.pid))]

    def is_over(self):
        return not self.client.exists("{queue:mail}:jobs:active", "{queue:mail}:jobs", self.QUEUE)

    def stop(self):
        for worker in self.workers:
            worker.terminate()
        statuses = [worker.wait(timeout=20) for worker in self.workers]
        assert all(status == 0 for status in statuses), f"workers end with {statuses}"


def until(what, holds):
    limit = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > limit:
            raise AssertionError(f"{what}: not within {SECONDS_MAX} s")
        time.sleep(0.05)


def account(url, command, folder):
    """Kills workers while they work."""
    with Shop(url, command, folder, work_seconds=0.02) as shop:
        chance, cut = random.Random(7), 0
        for _ in range(WORKERS):
            shop.start()
        shop.push(JOBS)
        for kill in range(KILLS):
            until("work goes on", lambda: len(shop.lines()) > (kill + 1) * JOBS // (KILLS + 2))
            victim = shop.workers.pop(chance.randrange(len(shop.workers)))
            victim.kill()
            victim.wait()
            cut += len(set(shop.noted("start", victim)) - set(shop.noted("done", victim)))
            shop.start()
        until("every job is done", lambda: len(set(shop.noted("done"))) == JOBS)
        until("no lease is left", shop.is_over)
        twice = len(shop.noted("start")) - JOBS
        # What had ended when its worker was killed, but not been reported, runs again as well: one for each of its threads.
        assert cut <= twice <= cut + KILLS, f"{twice} ran twice, {cut} of them were cut off"
        assert shop.noted("done", shop.workers[0]), "a worker that was not killed has worked"
        shop.stop()
        return f"{JOBS} jobs, {KILLS} workers killed, {cut} jobs cut off, {twice} ran twice"


def outlive(url, command, folder):
    """Stops a worker for longer than its lease."""
    with Shop(url, command, folder, work_seconds=OUTLIVED_SECONDS) as shop:
        said = lambda: shop.calls("job.done")
        shop.client.config_resetstat()
        shop.push(1)
        slow = shop.start()
        until("the first worker begins", lambda: shop.noted("start", slow))
        slow.send_signal(signal.SIGSTOP)
        other = shop.start()
        until("the other worker begins", lambda: shop.noted("start", other))
        slow.send_signal(signal.SIGCONT)
        until("the first worker says that it is done", lambda: said() == 1)
        [id] = set(shop.noted("start"))
        found = shop.client.execute_command("JOB.GET", shop.QUEUE, id)
        assert not shop.noted("done", other), "the other worker was to be at it"
        assert found, "the first worker has ended the other one's attempt"
        until("the other worker says that it is done", lambda: said() == 2)
        until("no lease is left", shop.is_over)
        shop.stop()
        return "a worker outlived its lease, and left the other one's attempt alone"


def survive(url, command, folder):
    """Has the server refuse, hang and close connections."""
    with Shop(url, command, folder, work_seconds=0) as shop:
        shop.client.config_resetstat()
        shop.start()
        until("the worker waits", lambda: shop.calls("job.take") > 0 or shop.client.info("clients")["blocked_clients"] > 0)
        shop.client.replicaof("127.0.0.1", 1)
        try:
            until("the worker is refused", lambda: "errorstat_READONLY" in shop.client.info("errorstats"))
        finally:
            shop.client.replicaof("NO", "ONE")
        for number, trouble in enumerate(["refuses", "hangs", "closes its connections"]):
            if trouble == "hangs":
                shop.client.client_pause(1500, all=True)
            if trouble == "closes its connections":
                shop.client.execute_command("CLIENT KILL TYPE normal SKIPME yes")
            shop.push(1, number)
            until(f"it works after the server {trouble}", lambda: len(shop.noted("done")) == number + 1)
        until("no lease is left", shop.is_over)
        shop.stop()
        return "a worker went on after the server had refused it, hung, and closed its connections"


def lose(url, command, folder):
    """Takes a job in the name of a worker, as if the reply had been lost on its way to it."""
    with Shop(url, command, folder, work_seconds=OUTLIVED_SECONDS) as shop:
        shop.push(2)
        worker = shop.start()
        until("it begins", lambda: shop.noted("start", worker))
        name = shop.client.execute_command("JOB.GET", shop.QUEUE, shop.noted("start")[0])[b"worker"]
        assert shop.client.execute_command("JOB.TAKE", name, "LEASE", LEASE_SECONDS * 1000, "FROM", shop.QUEUE)
        until("the lost job comes back", lambda: len(shop.noted("done")) == 2)
        shop.stop()
        return "a job whose reply was lost came back"


def idle(url, command, folder):
    """Waits with a client that waits for replies for less long than a worker for jobs."""
    with Shop(url, command, folder, work_seconds=0) as shop:
        shop.client.config_resetstat()
        shop.start()
        until("the worker looks for jobs", lambda: shop.calls("job.take") > 0)
        connections = shop.client.info("stats")["total_connections_received"]
        until("the worker goes on looking", lambda: shop.calls("job.take") > 4)
        assert shop.client.info("stats")["total_connections_received"] == connections, "its calls time out"
        shop.stop()
        return "an idle worker kept its connection"


def fail_alone(url, command, folder, **more):
    """Jobs that a client may find hard to read, or whose failure is hard to say, before one that is as it should be."""
    with Shop(url, command, folder, work_seconds=0, **more) as shop:
        job = lambda jid, rest=b"": b'{"class":"Leased","args":[],"queue":"mail","jid":"%s"%s}' % (jid, rest)
        shop.client.execute_command("JOB.PUT", shop.QUEUE, job(b"other"), "ID", b"id \xff")
        shop.client.lpush(shop.QUEUE, job(b"jid \xff"), job(b"bytes", b',"bytes":"\xff"'), job(b"fails", b',"fails":true'), b"\xff\x00")
        shop.push(1)
        shop.start()
        until("the last job is done", lambda: shop.noted("done")[-1:] == [f"{0:024x}"])
        until("no lease is left", lambda: not shop.client.exists("{queue:mail}:jobs:active"))
        assert shop.client.llen(shop.QUEUE) == 0, "no job is in the queue"
        attempts = shop.client.execute_command("JOB.LIST", shop.QUEUE, "DELAYED")[1]
        assert all(attempt == 1 and why for _, _, attempt, _, _, why in attempts), attempts
        shop.stop()
        return f"{len(attempts)} of 6 jobs failed by themselves, and the worker went on"


def fail_alone_as_text(url, command, folder):
    """The same with a client that decodes its replies."""
    return fail_alone(url, command, folder, DECODES="1")


def put(url, command, folder):
    at = int(time.time()) + 3600
    with Shop(url, [*command, "put"], folder, work_seconds=0, AT_SECONDS=str(at)) as shop:
        assert shop.start().wait(timeout=20) == 0
        job = lambda id: shop.client.execute_command("JOB.GET", shop.QUEUE, id)
        assert job("of a group")[b"group"] == b"customer:17", job("of a group")
        assert int(job("later")[b"due_ms"]) == at * 1000, job("later")
        return "jobs put into a group, and for a time"


def choose(url, command, folder):
    """Two queues in each order."""
    count, seen = 40, {}
    for name, more in {"strict": {}, "fair": {"ORDER": "fair"}, "weights": {"WEIGHTS": f"1 {1 << 32}"}}.items():
        with Shop(url, command, folder, work_seconds=0, queue="first second", **more) as shop:
            shop.push(count, queue="first")
            shop.push(count, begin=count, queue="second")
            shop.start()
            until("every job is done", lambda: len(shop.noted("done")) == 2 * count)
            shop.stop()
            seen[name] = sum(int(id, 16) < count for id in shop.noted("done")[:count])
    assert seen["strict"] == count and 0 < seen["fair"] < count and seen["weights"] == 0, seen
    return f"of the first {count} jobs, {seen['fair']} came from the first queue in fair order"


def give_back(url, command, folder):
    """Stops a process of Sidekiq before its job ends, while another thread of it waits for jobs."""
    with Shop(url, command, folder, work_seconds=20, WORKER_THREADS="2", STOP_SECONDS="1") as shop:
        shop.push(1)
        worker = shop.start()
        until("it begins", lambda: shop.noted("start", worker))
        until("its other thread waits", lambda: shop.client.info("clients")["blocked_clients"] > 0)
        shop.stop()
        assert not shop.client.exists("{queue:mail}:jobs:active"), "the process has the job still"
        assert shop.client.llen(shop.QUEUE) == 1, "the job is back"
        assert "#<struct" not in (folder / "log").read_text(), "its log shows what Sidekiq is configured with"
        return "a process that stopped gave its job back"


def tests(name):
    own = [give_back] if name.startswith("Sidekiq") else [put, choose]
    return [account, outlive, survive, lose, fail_alone, *own, *([fail_alone_as_text, idle] if name == "Python" else [])]


def main():
    url = sys.argv[1]
    only = sys.argv[2:] or list(CLIENTS)
    try:
        redis.Redis.from_url(url).execute_command("JOB.GET", "none", "none")
    except redis.ResponseError:
        print("\n".join(f"skip {name}: this server has no leases" for name in CLIENTS))
        return 0
    status = 0
    for name, command in CLIENTS.items():
        if name not in only:
            continue
        if not shutil.which(command[0]):
            print(f"skip {name}: {command[0]} is not there")
            continue
        with tempfile.TemporaryDirectory(prefix="darter-jobs-") as folder:
            try:
                for test in tests(name):
                    print(f"  {test(url, command, Path(folder))}")
                print(f"ok {name}", flush=True)
            except Exception as error:
                status = 1
                print((Path(folder) / "log").read_text()[-3000:])
                print(f"  {type(error).__name__}: {error}")
                print(f"FAIL {name}", flush=True)
    return status


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())
