# Sets CHROMIUM, and installs it if it is missing. Sourced by gates that look at pages.
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [[ -z $CHROMIUM ]]; then
  [[ $(id -u) == 0 ]] || { echo "Chromium is missing: apt-get install chromium" >&2; exit 1; }
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium >/dev/null
  CHROMIUM=$(command -v chromium)
fi
export CHROMIUM
