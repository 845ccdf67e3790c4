"""Starts two workers, and tells of each check in one line."""

import collections
import os
import subprocess
import sys
import tempfile
import time
import traceback

folder = tempfile.TemporaryDirectory()
os.environ.update(GATE_URL=sys.argv[1], GATE_FOLDER=folder.name)

from celery import chain, chord, group  # noqa: E402 (the application reads the environment)
from celery.result import allow_join_result  # noqa: E402

import jobs  # noqa: E402

SECONDS_MAX = 60
JOBS = 500


def until(condition):
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"takes more than {SECONDS_MAX} s"
        time.sleep(0.02)


def lines(name):
    try:
        with open(os.path.join(folder.name, name)) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def result(job):
    return job.get(timeout=SECONDS_MAX, interval=0.02)


def results():
    assert result(jobs.add.delay(40, 2)) == 42
    job = jobs.doomed.delay()
    until(job.ready)
    assert job.status == "FAILURE" and str(job.result) == "never"


def a_group():
    assert result(group(jobs.add.s(index, index) for index in range(20))()) == [2 * index for index in range(20)]


def a_chain():
    assert result(chain(jobs.add.s(1, 2), jobs.add.s(10), jobs.add.s(100))()) == 113


def a_chord():
    assert result(chord((jobs.add.s(index, 1) for index in range(30)), jobs.total.s())()) == sum(range(30)) + 30


def a_chord_in_a_chain():
    assert result((jobs.add.s(1, 1) | group(jobs.add.s(1), jobs.add.s(2)) | jobs.total.s() | jobs.add.s(1))()) == 8


def a_retry():
    assert result(jobs.flaky.delay(3)) == 3


def an_eta():
    due = time.time() + 1
    assert result(jobs.now.apply_async(countdown=1)) >= due - 0.01


def priorities():
    """Four held jobs occupy the workers; what is sent meanwhile comes in the order of its priority (0 first), but for those
    that a worker has fetched already."""
    held = [jobs.hold.apply_async(("priorities",), priority=0) for _ in range(4)]
    until(lambda: len(lines("priorities.began")) == 4)
    notes = []
    for priority in (9, 6, 3, 0):
        notes += [jobs.note.apply_async(("order", str(priority)), priority=priority) for _ in range(20)]
    jobs.note("priorities", "")
    for job in held + notes:
        result(job)
    order = lines("order")
    assert len(order) == 80
    assert "9" not in order[20:40] and "0" not in order[40:], order


def a_revocation():
    """It is told to the workers by publishing, and heeded when the job is due."""
    job = jobs.note.apply_async(("revoked", "ran"), countdown=1)
    job.revoke()
    until(lambda: any(job.id in ids for ids in (jobs.app.control.inspect(timeout=2).revoked() or {}).values()))
    until(job.ready)
    assert job.status == "REVOKED" and lines("revoked") == []


def remote_control():
    assert sorted(jobs.app.control.ping(timeout=2), key=str) == [{"one@gate": {"ok": "pong"}}, {"two@gate": {"ok": "pong"}}]


def each_job_runs_once():
    sent = [jobs.note.delay("account", str(index)) for index in range(JOBS)]
    for job in sent:
        result(job)
    runs = collections.Counter(lines("account"))
    assert runs == {str(index): 1 for index in range(JOBS)}, runs.most_common(5)


CHECKS = [results, a_group, a_chain, a_chord, a_chord_in_a_chain, a_retry, an_eta, priorities, a_revocation, remote_control, each_job_runs_once]


def start_worker(name):
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "-c", "2", "-n", f"{name}@gate", "-l", "WARNING"]
    return subprocess.Popen(command, env={**os.environ, "C_FORCE_ROOT": "1"})


def main():
    workers = [start_worker(name) for name in ("one", "two")]
    wrong = False
    try:
        until(lambda: len(jobs.app.control.ping(timeout=1) or []) == 2)
        for check in CHECKS:
            name = check.__name__.replace("_", " ")
            try:
                with allow_join_result():
                    check()
                print(f"ok {name}", flush=True)
            except Exception:
                wrong = True
                traceback.print_exc()
                print(f"FAIL {name}", flush=True)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(30)
    sys.exit(wrong)


main()
