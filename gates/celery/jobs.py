"""The application: what the workers run. GATE_URL names the store, GATE_FOLDER where the runs of jobs are written down."""

import os
import time

from celery import Celery

url = os.environ["GATE_URL"]
app = Celery("gate", broker=url + "/0", backend=url + "/1")
app.conf.update(
    broker_transport_options={"visibility_timeout": 3600, "queue_order_strategy": "priority", "priority_steps": list(range(10)), "sep": ":"},
    broker_connection_retry_on_startup=True,
    task_queue_max_priority=10,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def flaky(self, failures):
    if self.request.retries < failures:
        raise self.retry(countdown=0.05)
    return self.request.retries


@app.task
def doomed():
    raise ValueError("never")


@app.task
def now():
    return time.time()


@app.task
def note(name, text):
    """One line for each run, by one write."""
    with open(os.path.join(os.environ["GATE_FOLDER"], name), "a") as file:
        file.write(f"{text}\n")


@app.task
def hold(name):
    """Ends when the file is there."""
    note(name + ".began", "")
    while not os.path.exists(os.path.join(os.environ["GATE_FOLDER"], name)):
        time.sleep(0.01)
