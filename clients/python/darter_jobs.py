"""Jobs with leases on Darter, over redis-py:

    import json, redis, darter_jobs

    client = redis.Redis()
    darter_jobs.put(client, "mail", {"to": "ada@example.com"})

    def handle(job):
        send_mail(json.loads(job.payload)["to"])

    darter_jobs.Worker(client, ["mail"], handle).run()  # until SIGTERM

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
from dataclasses import dataclass, replace

import redis
from redis.client import NEVER_DECODE
from redis.exceptions import ClusterError

#: How long a call waits for a job, in ms: an idle worker looks that often whether it is to stop.
WAIT_MS = 1000
#: So many times in a lease a worker says that it still has its job.
BEATS_PER_LEASE = 4
#: How long a worker waits before it tries again, in seconds.
PAUSE = 1.0
#: What passes: the server cannot be reached, does not answer, or cannot serve workers for now.
PASSING = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, ClusterError)
#: The first words of such errors that redis-py has no class for.
PASSING_WORDS = {"UNBLOCKED", "NOREPLICAS", "MISCONF", "BUSY"}
#: Replies arrive as bytes whatever the client decodes: it would give up its connection at a job that is not text.
AS_BYTES = {NEVER_DECODE: True}


@dataclass(frozen=True)
class Job:
    """A job that this worker has."""

    queue: str
    #: Bytes that are not UTF-8 are surrogates in it, as in Python's file names.
    id: str
    #: 1 is the first one.
    attempt: int
    #: Text if the client has `decode_responses`.
    payload: bytes | str


def put(client, queue, payload, **options):
    """Adds a job and returns its id; with `unique`, the id of the job that holds this lock, if there is one.

    The payload is bytes, text, or what JSON can express. The options are `id`, `delay`, `at`, `unique`, `unique_for`, `tries`,
    `group` and `expire`; `delay`, `unique_for` and `expire` are seconds, and `at` is seconds since 1970 or a datetime.
    """
    return _text(_put(client, queue, payload, **options))


def try_put(client, queue, payload, **options):
    """The same. Returns the id, and whether the job was added: with `unique`, another one may hold the lock."""
    id, added = _put(client, queue, payload, "WITHADDED", **options)
    return _text(id), added == 1


def _put(
    client, queue, payload, *more, id=None, delay=None, at=None, unique=None, unique_for=None, tries=None, group=None, expire=None
):
    if not isinstance(payload, (bytes, str)):
        payload = json.dumps(payload)
    at = at.timestamp() if hasattr(at, "timestamp") else at
    options = {
        "ID": _raw(id), "IN": _ms(delay), "AT": _ms(at), "UNIQUE": unique, "FOR": _ms(unique_for), "TRIES": tries, "GROUP": group,
        "EXPIRE": _ms(expire),
    }
    words = [word for option in options.items() if option[1] is not None for word in option]
    return client.execute_command("JOB.PUT", _raw(queue), payload, *words, *more, **AS_BYTES)


class Worker:
    """Takes jobs from queues and has `handle` do them, one after the other, in this thread."""

    def __init__(self, client, queues, handle, *, lease=30.0, order="strict", weights=None, backoff=None):
        """`lease` is after how many seconds the jobs of a worker that died come back.

        `order` is "strict", which serves a queue only while those before it are empty, or "fair"; `weights` are numbers, one for each
        queue, and replace it. `backoff(attempt)` is after how many seconds a job comes again whose handler raised.
        """
        self.client, self.queues, self.handle = client, list(queues), handle
        self.lease_ms = int(lease * 1000)
        self.order = [order.upper()] if weights is None else ["WEIGHTS", *weights]
        self.backoff = backoff or (lambda attempt: min(3600, 5 * 2 ** min(attempt, 10)))
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._wait_ms = _wait_ms(client)
        self._decode = client.get_encoder().decode
        self._job = None
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
                for job in self._take():
                    self._do(job)
        finally:
            self._has_ended.set()
            keeper.join()

    def _take(self):
        """The job that is next, if one comes soon."""
        try:
            taken = self.client.execute_command(
                "JOB.TAKE", self.name, "LEASE", self.lease_ms, "WAIT", self._wait_ms, *self.order, "FROM", *self.queues, **AS_BYTES
            )
        except redis.RedisError as error:
            if not _passes(error):
                raise
            self._stopping.wait(PAUSE)
            taken = None
        return [Job(_text(queue), _text(id), attempt, payload) for queue, id, attempt, payload in taken or []]

    def _do(self, job):
        """Has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job."""
        self._job = job
        try:
            # What is wrong with one job, its payload included, fails that job only.
            self.handle(replace(job, payload=self._decode(job.payload)))
        except Exception as error:
            delay_ms = int(self.backoff(job.attempt) * 1000)
            self._say("JOB.FAIL", _raw(job.queue), _raw(job.id), "ATTEMPT", job.attempt, "IN", delay_ms, "WHY", _why(error))
        else:
            self._say("JOB.DONE", _raw(job.queue), "ATTEMPT", _raw(job.id), job.attempt)
        finally:
            self._job = None

    def _say(self, *command):
        """Says how a job ended, again while the server cannot hear it, until its lease has ended."""
        until = time.monotonic() + self.lease_ms / 1000
        while True:
            try:
                return self.client.execute_command(*command)
            except redis.RedisError as error:
                if not _passes(error):
                    raise
                if time.monotonic() >= until:
                    return None
                time.sleep(PAUSE)

    def _keep(self):
        """Keeps the lease of the job that this worker does. It names the job: one whose reply was lost is not kept, and comes back."""
        while not self._has_ended.wait(self.lease_ms / 1000 / BEATS_PER_LEASE):
            job = self._job
            if job is None:
                continue
            try:
                self.client.execute_command("JOB.KEEP", _raw(job.queue), self.lease_ms, "ATTEMPT", _raw(job.id), job.attempt)
            except redis.RedisError:
                # The next one may succeed.
                pass


def _passes(error):
    """Whether it is worth trying again."""
    if isinstance(error, redis.AuthenticationError):
        return False
    return isinstance(error, PASSING) or str(error).split(" ", 1)[0] in PASSING_WORDS


def _wait_ms(client):
    """How long a call of this client may wait for a job: less than it waits for a reply."""
    pool = getattr(client, "connection_pool", None)
    timeout = pool.connection_kwargs.get("socket_timeout") if pool else None
    return WAIT_MS if timeout is None else max(1, min(WAIT_MS, int(timeout * 500)))


def _ms(seconds):
    return None if seconds is None else int(seconds * 1000)


def _text(value):
    """A name as text, from which `_raw` makes the same bytes."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def _raw(name):
    return name.encode(errors="surrogateescape") if isinstance(name, str) else name


def _why(error):
    """An exception as bytes: its text may have letters that UTF-8 has not, or fail itself."""
    try:
        text = str(error)
    except Exception:
        text = "an exception without a text"
    return f"{type(error).__name__}: {text}".encode(errors="backslashreplace")
