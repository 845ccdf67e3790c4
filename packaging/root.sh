#!/usr/bin/env bash
# Debian roots with a real systemd in them, for tests: sourced by scripts/try-unit and packaging/test-deb, which need root.
#
#     base SUITE           makes a root once, with debootstrap, below $ROOTS (target/roots), and what tests install in it
#     fresh SUITE          a copy of it in $root, in memory, gone with this process
#     boot, halt           systemd as process 1 of namespaces of its own: processes, mounts, network, control group
#     inside COMMAND...    runs a command there; before boot, in the bare root, where no systemd is
#
# The network has a loopback interface only, so that the ports of the machine are not in the way. /proc/sys and /sys cannot be
# written to: nothing of the machine is changed.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
roots=${ROOTS:-$repo/target/roots}
[ "$(id -u)" -eq 0 ] || { echo "This needs root: it makes namespaces and mounts" >&2; exit 1; }
# All mounts are this process's own.
[ -n "${DARTER_OWN_MOUNTS:-}" ] || DARTER_OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
command -v debootstrap >/dev/null || apt-get install -y -q debootstrap >/dev/null
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
work=$(mktemp -d)
root=$work/root
systemd_pid= launcher_pid= group= failures=0

base() {
    # A root that an older version of this made lacks something.
    local made_by
    made_by=$(declare -f base | cksum)
    [ "$(cat "$roots/$1.done" 2>/dev/null)" = "$made_by" ] && return
    mkdir -p "$roots"
    rm -rf "${roots:?}/$1"
    echo "Making a root of $1 in $roots …"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,adduser,iproute2 "$1" "$roots/$1" >"$roots/$1.log"
    cp /etc/resolv.conf "$roots/$1/etc/resolv.conf"
    # What a test may install later, without a network.
    chroot "$roots/$1" sh -ec 'apt-get install -y -q --no-install-recommends redis-tools logrotate bash-completion man-db
        apt-get install -y -q --download-only redis-server
        apt-get install -y -q --download-only --no-install-recommends dnf rpm
        ! apt-cache show valkey-server >/dev/null 2>&1 || apt-get install -y -q --download-only --no-install-recommends valkey-server' >>"$roots/$1.log" 2>&1
    echo "$made_by" >"$roots/$1.done"
}

fresh() {
    halt
    if mountpoint -q "$root"; then umount -R -l "$root"; umount -l "$work"; fi
    mount -t tmpfs -o size=1500m tmpfs "$work"
    mkdir -p "$work/upper" "$work/work" "$root"
    mount -t overlay -o "lowerdir=$roots/$1,upperdir=$work/upper,workdir=$work/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
}

boot() {
    local groups
    groups=$(findmnt -n -t cgroup2 -o TARGET | head -1)
    [ -n "$groups" ] || { echo "No cgroup2 is mounted on this machine" >&2; exit 1; }
    group=$groups/darter-test-$$
    mkdir -p "$group"
    umount -l "$root/dev" "$root/proc"
    (
        echo $BASHPID >"$group/cgroup.procs"
        exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --net bash -ec '
            cd "$0"
            ip link set lo up
            mount --make-rprivate /
            mount --rbind . . && cd "$0"
            mount -t proc proc proc
            mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
            mount -t sysfs -o ro sysfs sys
            mount -t cgroup2 cgroup2 sys/fs/cgroup
            mount -t tmpfs tmpfs run
            mount -t tmpfs -o mode=755 tmpfs dev
            for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
            mkdir dev/pts dev/shm
            mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
            ln -s pts/ptmx dev/ptmx
            mount -t tmpfs tmpfs dev/shm
            pivot_root . mnt
            umount -l /mnt
            exec env -i container=darter-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' "$root"
    ) >"$work/boot.log" 2>&1 </dev/null &
    launcher_pid=$!
    until systemd_pid=$(pgrep -P "$launcher_pid") && inside test -S /run/dbus/system_bus_socket 2>/dev/null; do
        kill -0 "$launcher_pid" 2>/dev/null || { cat "$work/boot.log" >&2; exit 1; }
        sleep 0.1
    done
    echo "booted: $(inside systemctl --version | head -1), $(inside systemctl is-system-running --wait || true)"
}

halt() {
    [ -n "$launcher_pid" ] || return 0
    # With process 1 all of its namespace end.
    kill -KILL "$systemd_pid" 2>/dev/null || true
    wait "$launcher_pid" 2>/dev/null || true
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
    systemd_pid= launcher_pid=
}

finish() {
    halt
    if mountpoint -q "$root"; then umount -R -l "$root"; fi
    if mountpoint -q "$work"; then umount -l "$work"; fi
    rmdir "$work" 2>/dev/null || true
}
trap finish EXIT
trap 'echo "FAIL line $LINENO: $BASH_COMMAND" >&2' ERR

inside() {
    if [ -n "$systemd_pid" ]; then
        nsenter -t "$systemd_pid" -m -u -i -n -p -C -r -w env -i LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
    else
        unshare --net --pid --fork --kill-child chroot "$root" env -i LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            sh -c 'ip link set lo up; mount -t proc proc /proc; exec "$@"' sh "$@"
    fi
}

# check WHAT EXPECTED FOUND: EXPECTED is a pattern of the shell.
check() {
    # shellcheck disable=SC2053
    if [[ $3 == $2 ]]; then
        echo "ok   $1"
    else
        echo "FAIL $1: expected $2, found: $3"
        failures=$((failures + 1))
    fi
}

# eventually WHAT COMMAND...: for at most twenty seconds.
eventually() {
    local what=$1 tries=200
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { check "$what" "in time" "not in time"; return; }
        sleep 0.1
    done
    echo "ok   $what"
}

cli() { inside redis-cli "$@" 2>&1; }
answers() { [ "$(cli ping)" = PONG ]; }
main_pid() { inside systemctl show -P MainPID darter; }

# Whether a darter.service that is active works and is confined.
check_service() {
    local pid status
    check "it is active" active "$(inside systemctl is-active darter || true)"
    pid=$(main_pid)
    status=$(inside cat "/proc/$pid/status")
    check "its user" "$(inside id -u darter)" "$(awk '/^Uid:/ { print $2 }' <<<"$status")"
    check "it gains no rights" 1 "$(awk '/^NoNewPrivs:/ { print $2 }' <<<"$status")"
    check "it has no capabilities" 0000000000000000 "$(awk '/^CapEff:/ { print $2 }' <<<"$status")"
    check "nor could it get any" 0000000000000000 "$(awk '/^CapBnd:/ { print $2 }' <<<"$status")"
    check "its system calls are filtered" 2 "$(awk '/^Seccomp:/ { print $2 }' <<<"$status")"
    # A machine that forbids more (no CAP_SYS_RESOURCE) decides.
    check "it may open its files" "$(inside systemd-run -q --wait --pipe -p LimitNOFILE=65535 sh -c 'ulimit -Hn')" \
        "$(inside awk '/Max open files/ { print $5 }' "/proc/$pid/limits")"
    check "its file system is read-only" "*ro*" "$(inside awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo")"
    check "it does not see other processes" "*hidepid=invisible*" "$(inside awk '$5 == "/proc"' "/proc/$pid/mountinfo")"
    check "no other program can be run" "*Permission denied*" "$(inside nsenter -t "$pid" -m /usr/bin/id 2>&1 || true)"
    check "it moves bytes by io_uring" "*io_uring*" "$(cli info server | grep multiplexing_api)"
    check "it keeps a value" OK "$(cli set key value)"
    check "it runs a script" value "$(cli eval "return redis.call('get', KEYS[1])" 1 key)"
    check "it saves in the background" "Background saving started" "$(cli bgsave)"
    eventually "the snapshot is there" inside test -s /var/lib/darter/dump.rdb
    eventually "it is over" sh -c '[ "$(nsenter -t '"$systemd_pid"' -m -n -r redis-cli info persistence | grep -c "rdb_bgsave_in_progress:0")" = 1 ]'
    check "its folder is for nobody else" "?7?0 darter darter" "$(inside stat -c '%a %U %G' /var/lib/darter | sed 's/^/0/')"
}

# Whether a darter.service that keeps a journal comes back with everything.
check_restarts() {
    local before
    check "it keeps a journal" "aof_enabled:1*" "$(cli info persistence | grep aof_enabled)"
    cli set journaled 1 >/dev/null
    before=$(main_pid)
    check "it is told to read its files again" 0 "$(inside systemctl reload darter >&2; echo $?)"
    check "it is the same process" "$before" "$(main_pid)"
    check "a restart" 0 "$(inside systemctl restart darter >&2; echo $?)"
    check "it has come back with the data" 1 "$(cli get journaled)"
    cli set killed 1 >/dev/null
    before=$(main_pid)
    inside kill -KILL "$before"
    eventually "it is started again after a crash" sh -c '[ "$(nsenter -t '"$systemd_pid"' -m -n -r redis-cli ping 2>/dev/null)" = PONG ]'
    check "and has everything" 1 "$(cli get killed)"
    check "systemd has counted that" 1 "$(inside systemctl show -P NRestarts darter)"
    check "it stops" 0 "$(inside systemctl stop darter >&2; echo $?)"
    check "without a failure" success "$(inside systemctl show -P Result darter)"
    inside systemctl start darter
    check "and starts with everything" "1*value" "$(cli mget journaled key | tr '\n' ' ' | sed 's/ $//')"
}

report() {
    [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
}
