# The processes that a run starts: each logs to a file of its own in the run's folder, and each is ended by its pid when
# the script ends, by whatever way; should the script itself be killed, the kernel sends them TERM (setpriv --pdeathsig).

require "socket"
require "tmpdir"
require "fileutils"
require_relative "ports"

# A machine that runs nothing for longer has stood still: it is virtual and was paused, or all of this was.
STILL_SECONDS = 5.0

# Polls until the block holds; false when that takes longer than the limit, but for when the machine stood still.
def reached_within?(seconds_max, every_seconds: 0.02)
  left, last = seconds_max, Process.clock_gettime(Process::CLOCK_MONOTONIC)
  until yield
    return false if left.negative?
    sleep every_seconds
    now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    left -= [now - last, STILL_SECONDS].min
    last = now
  end
  true
end

class Processes
  # How long a worker waits for its jobs after TERM (-t). Sidekiq's fetch blocks for 2 s in BRPOP and cannot be called off:
  # a worker that gives up sooner, or just then, pushes its unfinished jobs back while its own idle thread is still first in
  # the queue's line, is handed one of them, and ends with it. That loses the job, against redis-server as well.
  TERM_SECONDS = 4
  # How long a server may take to start: machines are busy.
  START_SECONDS_MAX = 60

  attr_reader :folder

  def initialize
    @folder = Dir.mktmpdir("darter-sidekiq-")
    @logs = {}
    owner = Process.pid
    at_exit { finish if Process.pid == owner }
    %w[INT TERM HUP].each { |signal| trap(signal) { exit 130 } }
  end

  # Starts a command and returns its pid. Call it from the main thread only: pdeathsig goes by the thread that spawned.
  def start(name, *command, env: {})
    log = File.join(@folder, "#{name}.log")
    guard = %w[setpriv --pdeathsig TERM --]
    options = {chdir: @folder, pgroup: true, in: File::NULL, %i[out err] => [log, "a"]}
    pid = spawn(env, *guard, *command, options)
    @logs[pid] = log
    pid
  end

  # Starts a real Sidekiq worker process (its own command line) on jobs.rb; the settings are those named there.
  def start_worker(name, url, threads:, queues:, ruby: "ruby", **settings)
    words = ["-r", File.join(__dir__, "jobs.rb"), "-e", "production", "-c", threads.to_s, "-t", TERM_SECONDS.to_s]
    start, env = Stack.worker_ruby(ruby)
    env = {**env, "REDIS_URL" => url, "GATE_FOLDER" => @folder}
    settings.each { |name, value| env["GATE_#{name.upcase}"] = value.to_s }
    command = [*start, Gem.bin_path("sidekiq", "sidekiq"), *words, *queues.flat_map { |queue| ["-q", queue] }]
    start(name, *command, env: env)
  end

  # Starts a server command that takes `--port N`, on a free port unless one is named, and waits until it answers PING.
  def start_store(name, *command, port: Processes.free_port)
    pid = start(name, *command, "--port", port.to_s)
    answered = reached_within?(START_SECONDS_MAX) { running?(pid) ? pong?(port) : give_up(pid, "#{name} ended at once") }
    answered or give_up(pid, "#{name} does not answer on port #{port}")
    [pid, port]
  end

  # True while the process has not ended; a process that ended is forgotten here.
  def running?(pid)
    return false unless @logs.key?(pid)
    return true unless Process.wait(pid, Process::WNOHANG)
    @ended ||= {}
    @ended[pid] = @logs.delete(pid)
    false
  end

  # TERM, and KILL after the limit. False when it took the KILL.
  def stop(pid, within_seconds: 15) = stop_all([pid], within_seconds: within_seconds)

  def stop_all(pids, within_seconds: 15)
    pids.each { |pid| signal("TERM", pid) }
    return true if reached_within?(within_seconds) { pids.none? { |pid| running?(pid) } }
    pids.each { |pid| signal("KILL", pid) }
    reached_within?(5) { pids.none? { |pid| running?(pid) } }
    false
  end

  # KILL, at once.
  def kill(pid)
    signal("KILL", pid)
    reached_within?(5, every_seconds: 0.001) { !running?(pid) } or give_up(pid, "#{pid} does not end on KILL")
  end

  # Stops it, and returns when all its threads have stopped.
  def suspend(pid)
    signal("STOP", pid)
    states = -> { Dir.glob("/proc/#{pid}/task/*/stat").map { |file| File.read(file)[/\) (\w)/, 1] } }
    reached_within?(5, every_seconds: 0.001) { states.call.all?("T") } or give_up(pid, "#{pid} does not stop")
  end

  # Lets it go on.
  def resume(pid) = signal("CONT", pid)

  # Ends the script, showing the end of the log of the process that is to blame, if one is.
  def give_up(pid, message)
    log = @logs[pid] || @ended&.fetch(pid, nil)
    warn "", (log && File.exist?(log)) ? File.readlines(log).last(15) : []
    keep
    abort message
  end

  # Ends the script when one of the processes ended by itself.
  def check(pids)
    pids.each { |pid| give_up(pid, "worker #{pid} ended by itself") unless running?(pid) }
  end

  # What to say then, besides where what the processes wrote is: lines.
  def hint(&lines) = @hint = lines

  # Has what the processes wrote stay when the script ends.
  def keep
    return if @keeps
    @keeps = true
    puts "", *@hint&.call, "see #{@folder}"
  end

  def self.free_port = Ports.free

  private

  def signal(name, pid)
    Process.kill(name, pid) if running?(pid)
  end

  def pong?(port)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("PING\r\n")
      socket.wait_readable(1) && socket.readpartial(16).start_with?("+PONG")
    end
  rescue SystemCallError, EOFError
    false
  end

  # Nothing may interrupt it: no second signal, and no thread that ends the script as well.
  def finish
    %w[INT TERM HUP].each { |signal| trap(signal, "IGNORE") }
    (Thread.list - [Thread.current]).each(&:kill)
    stop_all(@logs.keys, within_seconds: 8)
    FileUtils.rm_rf(@folder) unless @keeps
  end
end
