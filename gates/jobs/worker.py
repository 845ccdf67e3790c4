"""A worker of clients/python."""

import json
import os
import time

import redis

import darter_jobs

RUNS = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND)


def handle(job):
    id = json.loads(job.payload)["jid"]
    assert id == job.id
    os.write(RUNS, f"start {id} {os.getpid()}\n".encode())
    time.sleep(float(os.environ["WORK_SECONDS"]))
    os.write(RUNS, f"done {id} {os.getpid()}\n".encode())


client = redis.Redis.from_url(os.environ["REDIS_URL"])
darter_jobs.Worker(client, [os.environ["QUEUE"]], handle, lease=float(os.environ["LEASE_SECONDS"])).run()
