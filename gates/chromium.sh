# Sets CHROMIUM, and installs it if it is missing. Sourced by gates that look at pages.
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [[ -z $CHROMIUM ]]; then
  [[ $(id -u) == 0 ]] || { echo "Chromium is missing: apt-get install chromium" >&2; exit 1; }
  apt-get update -q -o Acquire::Retries=3 >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 --no-install-recommends chromium >/dev/null
  CHROMIUM=$(command -v chromium)
fi
export CHROMIUM
