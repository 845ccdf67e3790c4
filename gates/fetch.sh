# How gates get what they need. Sourced by gates/*/run: `source gates/fetch.sh`, in the root of the repository.
#
# What is fetched lies in .cache/gates/NAME, of a version that the gate names, and is fetched once.

# address URL: sets `host` and `port` from redis://HOST:PORT[/…].
address() {
  [[ $1 =~ ^redis://([^:/]+):([0-9]+) ]] || { echo "$0: $1 is not redis://HOST:PORT" >&2; exit 2; }
  host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]}
}

# once FOLDER COMMAND…: runs the command in the new folder .cache/gates/FOLDER, unless it has been done in these words. Who comes while it
# runs waits for it.
once() {
  local folder=.cache/gates/$1 words lock
  shift
  words=$(echo "$*"; declare -f "$1")
  mkdir -p .cache/gates
  exec {lock}>"$folder.lock"
  flock "$lock"
  if [[ ! -e $folder/ready || $(<"$folder/ready") != "$words" ]]; then
    local attempt
    # Registries and mirrors fail now and then.
    for attempt in 1 2 3; do
      rm -rf "$folder"
      mkdir -p "$folder"
      # In the background, because `set -e` does nothing in what `if` tests.
      (set -e; cd "$folder"; "$@") >"$folder.log" 2>&1 &
      if wait $!; then
        echo "$words" >"$folder/ready"
        break
      fi
    done
    [ -e "$folder/ready" ] || { tail -n 20 "$folder.log" >&2; echo "see $folder.log" >&2; exit 1; }
  fi
  exec {lock}>&-
}

# python_packages WHAT…: a virtual environment in ./venv with these packages.
python_packages() {
  python3 -m venv venv
  venv/bin/pip install -q --disable-pip-version-check "$@"
}

# python_source NAME VERSION: the source package, with its tests, in ./source.
python_source() {
  venv/bin/pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d . "$1==$2"
  mkdir source
  tar xzf ./*.tar.gz -C source --strip-components 1
}

# node_packages WHAT…: node_modules with these packages.
node_packages() {
  npm init -y
  npm install --no-progress "$@"
}

# node_clients: node_modules with what the gates use of Node, in .cache/gates/node.
node_clients() {
  once node node_packages bullmq@6.7.0 ioredis@6.0.0 redis@6.3.1
}

# go_source MODULE VERSION: the module, with its tests, in ./source.
go_source() {
  cp -r "$(go mod download -json "$1@$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')" source
  chmod -R u+w source
}

# crate_source NAME VERSION: the crate, with its tests, in ./source, as a workspace of its own.
crate_source() {
  mkdir -p fetch/src
  touch fetch/src/lib.rs
  printf '[package]\nname = "fetch"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$1" "$2" >fetch/Cargo.toml
  local manifest
  manifest=$(cargo metadata -q --format-version 1 --manifest-path fetch/Cargo.toml |
    python3 -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$1")
  cp -r "${manifest%/*}" source
  printf '\n[workspace]\n' >>source/Cargo.toml
}

# jars GROUP:NAME:VERSION…: these artefacts of Maven Central and what they need, in ./jars.
jars() {
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>gate</groupId><artifactId>gate</artifactId><version>1</version><dependencies>'
    printf '%s\n' "$@" | sed -E 's|(.*):(.*):(.*)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version></dependency>|'
    echo '</dependencies></project>'
  } >pom.xml
  mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars
}
