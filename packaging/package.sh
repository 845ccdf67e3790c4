#!/usr/bin/env bash
# What all packages have in common: sourced by deb, rpm, tarball and container, which run in the repository's root then.
#
#     stage ROOT           makes a folder with all files of a package where a machine has them, without debugging information, which is
#                          put into $work/debug; the programs name those files, so debuggers find them in the same folder
#     of_one_time FOLDER   gives all files the time of the last commit, so that the same sources make the same package
#
# DARTER, DARTER_BENCH: the programs (as packaging/build makes them); NATIVE: a folder with the same programs for this machine, where those
# are for another one; VERSION: by default that of the programs.
# shellcheck disable=SC2034  # For those that source this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
built=target/x86_64-unknown-linux-musl/release
darter=${DARTER:-$built/darter}
bench=${DARTER_BENCH:-$(dirname "$darter")/darter-bench}
for program in "$darter" "$bench"; do
    [ -x "$program" ] || { echo "There is no $program: make static builds it" >&2; exit 1; }
done
# The kind of machine that an ELF file is for.
case $(od -An -t u2 -j 18 -N 2 "$darter" | tr -d ' ') in
    62) machine=x86_64 debian_machine=amd64 ;;
    183) machine=aarch64 debian_machine=arm64 ;;
    *) echo "$darter is neither for x86-64 nor for aarch64" >&2; exit 1 ;;
esac
# Programs that run here write the pages and completions.
if [ "$machine" = "$(uname -m)" ]; then
    native=$(dirname "$darter")
elif [ -x "${NATIVE:-$built}/darter" ]; then
    native=${NATIVE:-$built}
else
    native=target/release
    [ -x "$native/darter" ] || { echo "There is no $native/darter, which writes the pages: make programs builds it" >&2; exit 1; }
fi
VERSION=${VERSION:-$("$native/darter" --version | sed -n 's/^Darter server v=\([^ ]*\) .*/\1/p')}
# Of a version before another one (1.0.0-rc.1), packages sort `~` before nothing.
package_version=${VERSION//-/\~}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y "$darter")}
export SOURCE_DATE_EPOCH
# It comes with Rust, and knows every kind of machine.
rust=$(rustc --print sysroot)
objcopy() { LD_LIBRARY_PATH=$rust/lib "$rust/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-objcopy" "$@"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stage() {
    local root=$1 page completion
    mkdir -p "$root/usr/bin" "$work/debug"
    put_program() {
        local name
        name=$(basename "$1")
        objcopy --only-keep-debug "$1" "$work/debug/$name.debug"
        objcopy "$2" --remove-section=.comment --add-gnu-debuglink="$work/debug/$name.debug" "$1" "$root/usr/bin/$name"
    }
    put() { install -D -m "$1" "$2" "$root/$3"; }
    put 0755 packaging/darter-adopt-redis usr/bin/darter-adopt-redis
    # Symbols stay in the server: reports of crashes name functions.
    put_program "$darter" --strip-debug
    put_program "$bench" --strip-all
    put 0644 contrib/systemd/darter.service usr/lib/systemd/system/darter.service
    put 0640 packaging/darter.conf etc/darter/darter.conf
    chmod 0750 "$root/etc/darter"
    put 0644 packaging/logrotate etc/logrotate.d/darter
    put 0644 LICENSE usr/share/doc/darter/LICENSE
    put 0644 NOTICE usr/share/doc/darter/NOTICE
    put 0644 CHANGELOG.md usr/share/doc/darter/CHANGELOG.md
    # Who is in trouble may have no network.
    for page in docs/*.md; do put 0644 "$page" "usr/share/doc/darter/$(basename "$page")"; done
    put 0644 contrib/alerts/darter.rules.yml usr/share/doc/darter/examples/darter.rules.yml
    put 0644 contrib/grafana/darter.json usr/share/doc/darter/examples/darter-dashboard.json
    packaging/pages "$native/darter" "$native/darter-bench" packaging/darter-adopt-redis --to "$work/pages" --version "$VERSION" \
        --date "$(LC_ALL=C date -ud "@$SOURCE_DATE_EPOCH" +%F)"
    for page in "$work"/pages/*.1; do
        put 0644 "$page" "usr/share/man/man1/$(basename "$page")"
        gzip -9nf "$root/usr/share/man/man1/$(basename "$page")"
    done
    for completion in "$work"/pages/*.bash; do
        put 0644 "$completion" "usr/share/bash-completion/completions/$(basename "$completion" .bash)"
    done
}

of_one_time() { find "$1" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }
