"""redis-py while its server hands over, as `handover` starts it: client.py HOST PORT on|off"""

import sys
import threading
import time

import redis
from redis.maint_notifications import MaintNotificationsConfig

host, port, notices = sys.argv[1:]
config = MaintNotificationsConfig(enabled=notices == "on")
client = redis.Redis(host=host, port=int(port), maint_notifications_config=config, decode_responses=True)
lock = threading.Lock()
is_over = threading.Event()


def say(*words):
    with lock:
        print(*words, flush=True)


def push(number):
    pipeline = client.pipeline(transaction=False)
    for each in range(20):
        pipeline.rpush("pushed", number * 20 + each)
    return f"pushed {len(pipeline.execute())}"


def consume():
    job = client.brpop("jobs", timeout=1)
    return f"took {job[1]}" if job else "waited"


def count(name):
    return f"{name} {client.incr(name)}"


def produce(number):
    client.lpush("jobs", number)
    return f"made {number}"


def repeat(name, work):
    number = 0
    while not is_over.is_set():
        number += 1
        try:
            say("did", name, work(number))
        except redis.RedisError as error:
            say("error", name, repr(error))
            time.sleep(0.01)


works = {
    "count-0": lambda _: count("counter:0"),
    "count-1": lambda _: count("counter:1"),
    "push": push,
    "produce": produce,
    "consume-0": lambda _: consume(),
    "consume-1": lambda _: consume(),
}
threads = [threading.Thread(target=repeat, args=item) for item in works.items()]
for thread in threads:
    thread.start()
sys.stdin.read()
is_over.set()
for thread in threads:
    thread.join()
