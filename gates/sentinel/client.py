"""redis-py through Sentinel, as `failover` starts it: client.py LIST PASSWORD SENTINEL_PORT…"""

import sys
import threading
import time

from redis import RedisError
from redis.sentinel import Sentinel

name, password, *ports = sys.argv[1:]
sentinels = [("127.0.0.1", int(port)) for port in ports]

sentinel = Sentinel(sentinels, socket_timeout=1, password=password)
primary = sentinel.master_for("jobs")
replica = sentinel.slave_for("jobs")


def say(*words):
    print(" ".join(map(str, words)) + "\n", end="", flush=True)


def read():
    while True:
        try:
            if replica.llen(name):
                say("replica", replica.config_get("port")["port"])
        except RedisError as error:
            say("error of the replica", repr(error))
        time.sleep(0.05)


threading.Thread(target=read, daemon=True).start()
number, is_over = 0, False
while not is_over:
    number += 1
    try:
        say("primary", primary.config_get("port")["port"])
        primary.rpush(name, number)
        say("wrote", number)
        is_over = primary.exists("over")
    except RedisError as error:
        say("error", repr(error))
    time.sleep(0.01)
say("list", *map(int, primary.lrange(name, 0, 99)))
