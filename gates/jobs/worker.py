"""A worker of clients/python."""

import json
import os
import sys
import time
from datetime import datetime

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import darter_jobs

RUNS = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND)


def handle(job):
    payload = json.loads(job.payload)
    id = payload["jid"]
    assert id == job.id
    if "fails" in payload:
        raise ValueError("a surrogate alone: \ud800")
    os.write(RUNS, f"start {id} {os.getpid()}\n".encode())
    time.sleep(float(os.environ["WORK_SECONDS"]))
    os.write(RUNS, f"done {id} {os.getpid()}\n".encode())


# It waits for replies for less than a worker waits for jobs, and tries nothing again by itself.
client = redis.Redis.from_url(
    os.environ["REDIS_URL"], socket_timeout=0.5, retry=Retry(NoBackoff(), 0), decode_responses="DECODES" in os.environ
)
if sys.argv[1:] == ["put"]:
    darter_jobs.put(client, os.environ["QUEUE"], {"id": "of a group"}, group="customer:17")
    darter_jobs.put(client, os.environ["QUEUE"], {"id": "later"}, at=datetime.fromtimestamp(int(os.environ["AT_SECONDS"])))
    tried = [darter_jobs.try_put(client, os.environ["QUEUE"], "{}", id=id, unique="once") for id in ["one", "two"]]
    assert tried == [("one", True), ("one", False)], tried
    sys.exit()
options = {"order": os.environ["ORDER"]} if "ORDER" in os.environ else {}
if "WEIGHTS" in os.environ:
    options["weights"] = os.environ["WEIGHTS"].split()
darter_jobs.Worker(client, os.environ["QUEUE"].split(), handle, lease=float(os.environ["LEASE_SECONDS"]), **options).run()
