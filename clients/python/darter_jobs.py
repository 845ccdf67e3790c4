"""Jobs with leases on Darter, over redis-py:

    import redis, darter_jobs

    client = redis.Redis()
    darter_jobs.put(client, "mail", {"to": "ada@example.com"}, delay=60)

    def handle(job):
        send_mail(json.loads(job.payload)["to"])

    darter_jobs.Worker(client, ["mail"], handle).run()

A job whose worker dies runs again elsewhere when its lease ends, so it runs at least once. A job whose handler raises comes again
later; after its last attempt it is dead (JOB.LIST queue DEAD).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import uuid
from dataclasses import dataclass

import redis

#: How long a call waits for a job, in ms: an idle worker looks that often whether it is to stop.
WAIT_MS = 1000
#: So many times in a lease a worker says that it lives.
BEATS_PER_LEASE = 4


@dataclass(frozen=True)
class Job:
    """A job that this worker has."""

    queue: str
    id: str
    #: 1 is the first one.
    attempt: int
    payload: bytes


def put(client, queue, payload, *, id=None, delay=None, unique=None, unique_for=None, tries=None, expire=None):
    """Adds a job and returns its id; with `unique`, the id of the job that holds this lock, if there is one.

    The payload is bytes, text, or what JSON can express. `delay`, `unique_for` and `expire` are seconds.
    """
    if not isinstance(payload, (bytes, str)):
        payload = json.dumps(payload)
    words = ["JOB.PUT", queue, payload]
    for word, value in [("ID", id), ("IN", _ms(delay)), ("UNIQUE", unique), ("FOR", _ms(unique_for)), ("TRIES", tries), ("EXPIRE", _ms(expire))]:
        if value is not None:
            words += [word, value]
    return _text(client.execute_command(*words))


class Worker:
    """Takes jobs from queues, the first one first, and has `handle` do them, in this thread."""

    def __init__(self, client, queues, handle, *, lease=30.0, backoff=None):
        """`lease` is after how many seconds the jobs of a worker that died come back; `backoff(attempt)`, after how many seconds a job
        comes again whose handler raised."""
        self.client, self.queues, self.handle = client, list(queues), handle
        self.lease_ms = int(lease * 1000)
        self.backoff = backoff or (lambda attempt: min(3600, 5 * 2 ** min(attempt, 10)))
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._stopping = threading.Event()
        self._has_ended = threading.Event()

    def stop(self):
        """Has `run` return after the job that it does."""
        self._stopping.set()

    def run(self, *, signals=True):
        """Works until it is stopped; by SIGTERM and SIGINT as well, if it runs in the main thread and `signals` is true."""
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        keeper = threading.Thread(target=self._keep, daemon=True)
        keeper.start()
        try:
            while not self._stopping.is_set():
                try:
                    for job in self._take():
                        self._do(job)
                except redis.ConnectionError:
                    self._stopping.wait(1.0)
        finally:
            self._has_ended.set()
            keeper.join()

    def _take(self):
        taken = self.client.execute_command(
            "JOB.TAKE", self.name, "LEASE", self.lease_ms, "WAIT", WAIT_MS, "FROM", *self.queues
        )
        for queue, id, attempt, payload in taken or []:
            yield Job(_text(queue), _text(id), attempt, payload)

    def _do(self, job):
        """Has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job."""
        try:
            self.handle(job)
        except Exception as error:
            delay_ms = int(self.backoff(job.attempt) * 1000)
            why = f"{type(error).__name__}: {error}"
            self._say("JOB.FAIL", job.queue, job.id, "ATTEMPT", job.attempt, "IN", delay_ms, "WHY", why)
        else:
            self._say("JOB.DONE", job.queue, "ATTEMPT", job.id, job.attempt)

    def _say(self, *command):
        """Says how a job ended, again if the server cannot be reached, until its lease has ended."""
        for _ in range(max(1, self.lease_ms // 1000)):
            try:
                return self.client.execute_command(*command)
            except redis.ConnectionError:
                time.sleep(1.0)

    def _keep(self):
        """Says that this worker lives: none of its leases ends meanwhile."""
        while not self._has_ended.wait(self.lease_ms / 1000 / BEATS_PER_LEASE):
            try:
                for queue in self.queues:
                    self.client.execute_command("JOB.KEEP", queue, self.lease_ms, "WORKER", self.name)
            except redis.ConnectionError:
                pass


def _ms(seconds):
    return None if seconds is None else int(seconds * 1000)


def _text(value):
    return value.decode() if isinstance(value, bytes) else value
