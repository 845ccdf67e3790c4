# The application that the workers run: loaded by `sidekiq -r` in each worker process and by the scripts that push.
#
# What happened to a job is written beside the store, never into it, so that an account need not trust the store under
# test: each process appends lines to GATE_FOLDER/<pid>.runs, one write(2) each. A line is
#
#   event  jid  class  queue  unix time  detail
#
# event: start, done, fail (raised), cut (stopped by a shutdown, must come back), step (one step of Stepwise).
# GATE_RECORD=witness adds what witness.rb writes. GATE_RECORD=tally is for measuring: then only the indexes of the NoOp jobs are kept, in memory, and written at exit.
# GATE_SENTINELS=host:port,... are Sentinels that know the primary whose name REDIS_URL has in a host's place.
# GATE_IDENTITY is the name by which a worker reports, instead of one made of host, pid and chance.
# GATE_BEAT_SECONDS makes the workers report more often than every 5 (Sidekiq 6) or 10 seconds (7).

require "sidekiq"

module Gate
  FOLDER = ENV.fetch("GATE_FOLDER")
  WAIT_SECONDS_MAX = 120
  SIX, EIGHT = %w[6. 8.].map { |version| Sidekiq::VERSION.start_with?(version) }

  # Of the client of a store.
  def self.settings(url)
    sentinels = ENV["GATE_SENTINELS"]&.split(",")&.map { |place| place.split(":").then { |host, port| {host: host, port: port.to_i} } }
    sentinels ? {url: url, sentinels: sentinels, role: "master"} : {url: url}
  end

  def self.touch(name) = File.write(File.join(FOLDER, name), "")

  def self.reached?(name) = File.exist?(File.join(FOLDER, name))

  # Waits until the file is there, or until the block says so; the limit keeps a lost process from staying forever.
  def self.await(name)
    limit = monotonic + WAIT_SECONDS_MAX
    sleep 0.01 until reached?(name) || monotonic > limit || (block_given? && yield)
  end

  def self.monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def self.record(event, jid, klass, queue, detail = "-")
    @file ||= File.open(File.join(FOLDER, "#{Process.pid}.runs"), File::WRONLY | File::APPEND | File::CREAT)
    @file.syswrite("#{event} #{jid} #{klass} #{queue} #{Time.now.to_f} #{detail}\n")
  end

  # The server middleware that writes the lines.
  class Recorder
    def call(worker, job, queue)
      worker.attempt = job["retry_count"] ? job["retry_count"] + 1 : 0 if worker.respond_to?(:attempt=)
      write("start", job, queue)
      yield
      write("done", job, queue)
    rescue Exception => error # rubocop:disable Lint/RescueException (a shutdown is an Interrupt)
      write(error.class.name.match?(/Shutdown|Interrupted|Skip/) ? "cut" : "fail", job, queue)
      raise
    end

    def write(event, job, queue) = Gate.record(event, job["jid"], job["class"], queue)
  end

  # What a measured worker did: index of every NoOp job, when the last one ended, and CPU seconds since the start.
  # Once the queues are `drained`, it says how many jobs it ran: a worker that is ended while it holds some pushes them back.
  class Tally
    attr_reader :indexes
    attr_accessor :ended_at

    def initialize
      @indexes = Queue.new # JRuby's threads really run at once
    end

    def begin
      @cpu_at_start = cpu_seconds
      Thread.new { count while sleep 0.05 }
      at_exit { File.binwrite(File.join(FOLDER, "#{Process.pid}.tally"), Marshal.dump(result)) }
    end

    def count = Gate.reached?("drained") && File.write(File.join(FOLDER, "#{Process.pid}.count"), @indexes.size.to_s)

    def result = {indexes: Array.new(@indexes.size) { @indexes.pop }, ended_at: @ended_at, cpu_seconds: cpu_seconds - @cpu_at_start}

    def cpu_seconds = Process.times.then { |times| times.utime + times.stime }
  end
  TALLY = Tally.new
end

# Ends at once.
class Plain
  include Sidekiq::Job
  def perform(_index) = nil
end

# Takes long enough to count in the metrics, which know milliseconds.
class Brief
  include Sidekiq::Job
  def perform(_index) = sleep(0.03)
end

# Takes so long.
class Lasting
  include Sidekiq::Job
  def perform(_index, seconds) = sleep(seconds)
end

# Runs until the file `release` is there.
class Held
  include Sidekiq::Job
  def perform(_index) = Gate.await("release")
end

# Fails the given number of times, then ends well.
class Flaky
  include Sidekiq::Job
  attr_accessor :attempt
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(index, failures)
    raise "flaky job #{index}, attempt #{attempt}" if attempt < failures
  end
end

# Fails and has no retries: it must end in the dead set at once.
class Doomed
  include Sidekiq::Job
  sidekiq_options retry: 0
  def perform(index) = raise("doomed job #{index}")
end

# Fails and stays in the retry set for an hour.
class Stuck
  include Sidekiq::Job
  sidekiq_retry_in { 3600 }
  def perform(index) = raise("stuck job #{index}")
end

# The job of the measurement.
class NoOp
  include Sidekiq::Job

  def perform(index)
    Gate::TALLY.indexes << index
    Gate::TALLY.ended_at = Gate.monotonic
  end
end

# A job of ten steps that keeps its place in the store, and continues there after a shutdown (Sidekiq 7.3).
unless Gate::SIX
  class Stepwise
    include Sidekiq::IterableJob
    STEPS = 10
    PAUSE_AT = 5

    def build_enumerator(_index, cursor:) = array_enumerator((0...STEPS).to_a, cursor: cursor)

    def each_iteration(step, _index)
      Gate.await("release") { interrupted? } if step == PAUSE_AT
      Gate.record("step", jid, self.class, "-", step)
    end
  end
end

# redis-rb 4.8 warns twice per operation of Sidekiq 6.4; a run would then measure the printing.
if Gate::SIX
  Redis.sadd_returns_boolean = false
  Redis.silence_deprecations = true
end

Sidekiq.logger.level = Logger::WARN

Sidekiq.configure_server do |config|
  config.redis = Gate.settings(ENV["REDIS_URL"])
  # Look for due jobs twice a second, however many processes there are; the default is some five seconds each.
  (Gate::SIX ? Sidekiq.options : config)[:poll_interval_average] = 0.5
  if ENV["GATE_BEAT_SECONDS"]
    require "sidekiq/launcher"
    Sidekiq::Launcher.send(:remove_const, :BEAT_PAUSE)
    Sidekiq::Launcher.const_set(:BEAT_PAUSE, Float(ENV["GATE_BEAT_SECONDS"]))
  end
  if ENV["GATE_IDENTITY"]
    require "sidekiq/launcher"
    Sidekiq::Launcher.define_method(:identity) { ENV["GATE_IDENTITY"] }
  end
  if ENV["GATE_RECORD"] == "tally"
    config.on(:startup) do
      Gate.touch("ready-#{Process.pid}")
      Gate.await("go")
      Gate::TALLY.begin
    end
  else
    config.server_middleware { |chain| chain.add Gate::Recorder }
    require_relative "witness" if ENV["GATE_RECORD"] == "witness"
  end
end
