"""Celery for the test of the console: celery_jobs.py redis://HOST:PORT QUEUE SECONDS; what it reads and answers is as in
sidekiq.rb. The worker loads it as its application."""

import json
import os
import subprocess
import sys
import tempfile
import time

from celery import Celery

app = Celery("console", broker=os.environ.get("CONSOLE_URL", "memory://"))
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1, worker_hijack_root_logger=False, task_ignore_result=True)


@app.task(bind=True, name="images.resize")
def resize(self, _index):
    time.sleep(float(os.environ["CONSOLE_SECONDS"]))
    with open(os.environ["CONSOLE_RAN"], "a") as file:
        file.write(f"{self.request.id}\n")


def main():
    url, queue, seconds = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        ran = os.path.join(folder, "ran")
        os.environ.update(CONSOLE_URL=url + "/0", CONSOLE_SECONDS=seconds, CONSOLE_RAN=ran, C_FORCE_ROOT="1")
        app.conf.broker_url = url + "/0"
        command = [sys.executable, "-m", "celery", "-A", "celery_jobs", "worker", "-c", "2", "-Q", queue, "-l", "WARNING"]
        here = os.path.dirname(os.path.abspath(__file__))
        worker = subprocess.Popen(command, cwd=here, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        try:
            for line in sys.stdin:
                word, *rest = line.split()
                if word == "push":
                    answer = [resize.apply_async((index,), queue=queue).id for index in range(int(rest[0]))]
                else:
                    answer = open(ran).read().split() if os.path.exists(ran) else []
                print("= " + json.dumps(answer), flush=True)
        finally:
            worker.terminate()
            worker.wait(30)


if __name__ == "__main__":
    main()
