"""redis-py under Sentinels that speak TLS, as `clients` starts it: sentinel.py CA CERT KEY SENTINEL_PORT…

For each line of its input it adds the next number to the list `numbers` at the primary, and prints it when that is done.
"""

import sys
import time

from redis import RedisError
from redis.sentinel import Sentinel

authority, certificate, key, *ports = sys.argv[1:]
secured = {"ssl": True, "ssl_ca_certs": authority, "ssl_certfile": certificate, "ssl_keyfile": key, "socket_timeout": 5}
sentinel = Sentinel([("127.0.0.1", int(port)) for port in ports], sentinel_kwargs=secured, **secured)
primary = sentinel.master_for("jobs")
for number, _ in enumerate(sys.stdin, 1):
    while True:
        try:
            # Once, though an earlier try may have been written.
            primary.lrem("numbers", 0, number)
            primary.rpush("numbers", number)
            break
        except RedisError as error:
            print(repr(error), file=sys.stderr)
            time.sleep(0.1)
    print(number, flush=True)
