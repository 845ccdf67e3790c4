"""redis-py over TLS, as `clients` starts it: client.py PORT CA CERT KEY"""

import sys
import threading

import redis

port, authority, certificate, key = sys.argv[1:]
options = {"ssl": True, "ssl_ca_certs": authority, "ssl_check_hostname": True, "retry": None}
if certificate:
    options |= {"ssl_certfile": certificate, "ssl_keyfile": key}
for protocol in (2, 3):
    client = redis.Redis("localhost", int(port), protocol=protocol, **options)
    large = b"x" * 3_000_000
    assert client.set("large", large) and client.get("large") == large
    with client.pipeline() as pipeline:
        for _ in range(1000):
            pipeline.incr("n")
        assert len(pipeline.execute()) == 1000
    threading.Timer(0.2, client.rpush, ("list", "x")).start()
    assert list(client.blpop("list", 30)) == [b"list", b"x"]
print("served")
