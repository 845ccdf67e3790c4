"""Pushes jobs for workers of each client, kills workers by SIGKILL while they work, and accounts for every job.

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
CLIENTS = {
    "Python": [sys.executable, str(HERE / "worker.py")],
    "Node with ioredis": ["node", str(HERE / "worker.js"), "ioredis"],
    "Node with node-redis": ["node", str(HERE / "worker.js"), "redis"],
    "Go": [str(ROOT / ".cache/gates/jobs/go-worker")],
    "Sidekiq 6": ["ruby", str(HERE / "sidekiq.rb"), "6"],
    "Sidekiq 7": ["ruby", str(HERE / "sidekiq.rb"), "7"],
}


def payload(number, queue):
    """A job of Sidekiq, which the others read for its id only."""
    job = {"class": "Leased", "args": [], "retry": True, "queue": queue, "jid": f"{number:024x}"}
    return json.dumps(job | {"created_at": time.time(), "enqueued_at": time.time()})


def account(url, name, command, folder):
    client = redis.Redis.from_url(url)
    client.flushall()
    queue, runs = "queue:mail", folder / "runs"
    runs.touch()
    environment = os.environ | {
        "REDIS_URL": url, "RUNS": str(runs), "QUEUE": queue, "LEASE_SECONDS": str(LEASE_SECONDS),
        "NODE_PATH": str(ROOT / ".cache/gates/node/node_modules"), "PYTHONPATH": str(ROOT / "clients/python"),
    }
    log = open(folder / "log", "ab")

    def start():
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)

    def lines():
        return [line.split() for line in runs.read_text().splitlines()]

    def until(what, holds):
        limit = time.monotonic() + SECONDS_MAX
        while not holds():
            if time.monotonic() > limit:
                raise AssertionError(f"{what}: not within {SECONDS_MAX} s")
            time.sleep(0.05)

    pids = lambda: {line[2] for line in lines()}
    workers, chance = [start() for _ in range(WORKERS)], random.Random(7)
    try:
        client.lpush(queue, *[payload(number, "mail") for number in range(JOBS)])
        client.sadd("queues", "mail")
        cut = 0
        for kill in range(KILLS):
            until("work goes on", lambda: len(lines()) > (kill + 1) * JOBS // (KILLS + 2))
            victim = workers.pop(chance.randrange(len(workers)))
            victim.kill()
            victim.wait()
            started = {line[1] for line in lines() if line[0] == "start" and line[2] == str(victim.pid)}
            done = {line[1] for line in lines() if line[0] == "done" and line[2] == str(victim.pid)}
            cut += len(started - done)
            workers.append(start())
        until("every job is done", lambda: len({line[1] for line in lines() if line[0] == "done"}) == JOBS)
        until("no lease is left", lambda: not client.exists("{queue:mail}:jobs:active", "{queue:mail}:jobs", queue))
        twice = len([line for line in lines() if line[0] == "start"]) - JOBS
        # What had ended when its worker was killed, but not been reported, runs again as well: one for each of its threads.
        assert cut <= twice <= cut + KILLS, f"{twice} ran twice, {cut} of them were cut off"
        assert pids() >= {str(worker.pid) for worker in workers[:1]}, "a worker that was not killed has worked"
        for worker in workers:
            worker.terminate()
        statuses = [worker.wait(timeout=20) for worker in workers]
        assert all(status == 0 for status in statuses), f"workers end with {statuses}"
        return f"{JOBS} jobs, {KILLS} workers killed, {cut} jobs cut off, {twice} ran twice"
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        log.close()


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
                print(f"  {account(url, name, command, Path(folder))}")
                print(f"ok {name}", flush=True)
            except Exception as error:
                status = 1
                print((Path(folder) / "log").read_text()[-3000:])
                print(f"  {type(error).__name__}: {error}")
                print(f"FAIL {name}", flush=True)
    return status


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())
