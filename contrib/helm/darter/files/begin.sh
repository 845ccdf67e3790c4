#!/bin/sh
# Begins a pod: says whom its server follows, and writes the configuration of its Sentinel the first time.
#
# The primary is whom the Sentinels name; if none answers, whom this pod's own Sentinel named last; the first time, the first pod.
# So servers that all start at once follow the one that led last, rather than lose what it had.
set -eu
data=${DATA:-/data}
self=$POD_NAME.$DOMAIN
known=$data/sentinel/sentinel.conf

primary=$(timeout 3 redis-cli -h "$SENTINELS" -p 26379 sentinel get-master-addr-by-name "$PRIMARY_NAME" 2>/dev/null | head -n 1) || true
case $primary in *."$DOMAIN") ;; *) primary= ;; esac
if [ -z "$primary" ] && [ -e "$known" ]; then
    primary=$(sed -n "s/^sentinel monitor $PRIMARY_NAME \([^ ]*\) .*/\1/p" "$known" | tail -n 1)
fi
primary=${primary:-${POD_NAME%-*}-0.$DOMAIN}

umask 077
cp "${CONFIGURATION:-/etc/darter/darter.conf}" "$data/darter.conf"
[ "$primary" = "$self" ] || echo "replicaof $primary 6379" >>"$data/darter.conf"

if [ ! -e "$known" ]; then
    mkdir -p "$data/sentinel"
    {
        echo "port 26379"
        echo "dir $data/sentinel"
        echo "sentinel resolve-hostnames yes"
        echo "sentinel announce-hostnames yes"
        echo "sentinel announce-ip $self"
        echo "sentinel monitor $PRIMARY_NAME $primary 6379 $QUORUM"
        echo "sentinel down-after-milliseconds $PRIMARY_NAME $DOWN_AFTER_MS"
        echo "sentinel failover-timeout $PRIMARY_NAME 60000"
        echo "sentinel parallel-syncs $PRIMARY_NAME 1"
        [ -z "${PASSWORD:-}" ] || echo "sentinel auth-pass $PRIMARY_NAME \"$PASSWORD\""
    } >"$known.new"
    mv "$known.new" "$known"
fi
echo "$self follows $primary"
