# A server of a run, Darter or redis-server, which the script asks by connections of its own: one for each request, so that one
# that was stopped, killed or cut off harms nobody else.

class Node
  # A request that takes longer is given up.
  ANSWER_SECONDS_MAX = 2

  attr_reader :name, :host, :port, :pid

  # `command`: program and options, without the port. `prefix`: words that start it in its place.
  def initialize(name, *command, host: "127.0.0.1", port: Processes.free_port, prefix: [])
    @name, @command, @host, @port, @prefix = name, command, host, port, prefix
  end

  # target/release/darter, or the binary that was named instead.
  def self.darter(binary)
    binary = File.expand_path(binary || "target/release/darter", Stack::ROOT)
    File.executable?(binary) or abort "#{binary} is not there: build it (cargo build --release), or name one by DARTER"
    binary
  end

  # Where a program of the system is. Debian keeps some where only root looks.
  def self.installed(program)
    folders = [*ENV["PATH"].split(":"), "/usr/sbin"]
    folders.map { |folder| File.join(folder, program) }.find { |path| File.executable?(path) } or abort "#{program} is not installed: run scripts/setup"
  end

  # Returns when it answers.
  def start
    @pid = PROCESSES.start(name, *@prefix, *@command, "--port", @port.to_s)
    answered = reached_within?(Processes::START_SECONDS_MAX) do
      PROCESSES.check([@pid])
      tried { call("PING") }
    end
    answered or PROCESSES.give_up(@pid, "#{@name} does not answer on port #{@port}")
    self
  end

  # Raises Store::ERROR when it refuses, and when it cannot be reached.
  def call(*words)
    if Gate::SIX
      client = Redis.new(host: @host, port: @port, timeout: ANSWER_SECONDS_MAX, reconnect_attempts: 0)
      client.call(words)
    else
      client = RedisClient.config(host: @host, port: @port, timeout: ANSWER_SECONDS_MAX, reconnect_attempts: 0).new_client
      client.call(*words)
    end
  ensure
    client&.close
  end

  # What the block says, or nil where the server does not answer or refuses.
  def tried
    yield
  rescue Store::ERROR
    nil
  end

  def info(section) = call("INFO", section).lines(chomp: true).grep(/:/).to_h { |line| line.split(":", 2) }

  def replication = info("replication")

  # How many full and how many partial synchronisations it has given.
  def synchronisations = info("stats").values_at("sync_full", "sync_partial_ok").map(&:to_i)

  def primary? = replication["role"] == "master"

  # Whether it follows another, and has all that this one had when they met.
  def in_step? = replication.then { |is| is["role"] == "slave" && is["master_link_status"] == "up" && is["master_sync_in_progress"] == "0" }

  def offset = replication.fetch("master_repl_offset").to_i
end
