# Sidekiq at work while something happens to its store: threads that push, worker processes of Sidekiq's own command line, and
# the wait until all is done. What came of it is in the lines that jobs.rb and witness.rb write; Verdict reads them.
#
# The pushes are single jobs, bulks, jobs for later, and jobs that fail once or twice. All of it follows from the seed but the moments.

class Traffic
  PUSHERS = 3
  # Between a backlog and idle workers: with more jobs than the first nobody pushes, until there are fewer than the second.
  JOBS_MANY, JOBS_FEW = 400, 20
  BOOT_SECONDS_MAX, DRAIN_SECONDS_MAX = 60, 60
  # A push that is refused for longer than that ends the run: somebody insists on it.
  PUSH_SECONDS_MAX = 120
  # For so long nothing is left before it is believed: longer than the scheduler and a fetch may hold a job.
  QUIET_SECONDS = 3

  # One push, on the monotonic clock, and what the store or the client's library said when it was tried in vain before.
  Push = Struct.new(:from, :to, :refusals) do
    def seconds = to - from
    def meets?(from, to) = self.from <= to && self.to >= from
  end

  # Processes that have to live, besides the workers.
  attr_accessor :servers
  # Those that were answered, as far as they are insisted on.
  attr_reader :pushes

  # `insists`: a job whose push failed is pushed again, under the same id, until the store has answered for it; otherwise it is
  # given up. `fails`: whether some of the jobs fail.
  def initialize(verdict, queues:, seed:, insists: false, fails: true)
    @verdict, @seed, @insists, @fails = verdict, seed, insists, fails
    @queues = Array.new(queues) { |index| "q#{index}" }
    @servers, @workers, @pushers, @pushes = [], [], [], []
    @rests = @ends = false
    # Of those that were waited for once.
    @missing = 0
  end

  # Returns when all workers have looked for due jobs. Sidekiq 7.3's thread for that ends for good if the store refuses what it asks first, up to
  # five seconds after the start.
  def boot(url, processes:, threads:, **settings)
    @workers = Array.new(processes) do |index|
      queues = index.odd? ? @queues.map { |queue| "#{queue},1" } : @queues.rotate(index)
      PROCESSES.start_worker("worker-#{index}", url, threads: threads, queues: queues, record: "witness", **settings)
    end
    ready = reached_within?(BOOT_SECONDS_MAX, every_seconds: 0.05) do
      check
      @workers.all? { |pid| Gate.reached?("polls-#{pid}") }
    end
    ready or PROCESSES.give_up(@workers[0], "the workers did not start within #{BOOT_SECONDS_MAX} s")
  end

  def begin_pushing
    @ends = false
    @pushers = Array.new(PUSHERS) { |index| Thread.new { push_on(Random.new(@seed + index)) } }
    @pushers.each { |pusher| pusher.abort_on_exception = true }
    @seed += PUSHERS
  end

  def end_pushing
    @ends = true
    @pushers.each(&:join)
  end

  # Lets everybody work. The pushers rest when there is much to do, unless they are not to.
  def watch(seconds, resting: true)
    limit = Gate.monotonic + seconds
    while Gate.monotonic < limit
      check
      @verdict.read
      @rests = resting && behind?
      sleep((limit - Gate.monotonic).clamp(0, 0.05))
    end
  end

  # Until all jobs have ended, or for a while nothing has happened and the store has nothing left: what is lost stays outstanding.
  def drain
    quiet_since = nil
    reached_within?(DRAIN_SECONDS_MAX, every_seconds: 0.1) do
      check
      before = @verdict.outstanding
      @verdict.read
      quiet_since = nil if left.positive? || @verdict.outstanding != before
      @verdict.outstanding.zero? || Gate.monotonic - (quiet_since ||= Gate.monotonic) > QUIET_SECONDS
    end
    @missing = @verdict.backlog
  end

  # Jobs that the store has.
  def left = [Sidekiq::ScheduledSet, Sidekiq::RetrySet, Sidekiq::DeadSet].sum { |set| set.new.size } + Sidekiq::Queue.all.sum(&:size)

  def stop_workers = PROCESSES.stop_all(@workers)

  # Ends the script if a process has ended by itself.
  def check = PROCESSES.check([*@servers, *@workers])

  private

  # Whether there is much to do, and is being done: jobs that are lost stay outstanding.
  def behind?
    backlog = @verdict.backlog - @missing
    @backlog, @backlog_at = backlog, Gate.monotonic if backlog != @backlog
    backlog > (@rests ? JOBS_FEW : JOBS_MANY) && Gate.monotonic - @backlog_at < QUIET_SECONDS
  end

  def push_on(random)
    index = 0
    until @ends
      sleep(random.rand * (@rests ? 0.1 : 0.01))
      push(job(random, index += 1)) unless @rests
    end
  end

  # What Sidekiq's client takes: one job, or several, of which "args" has a list each.
  def job(random, index)
    queue = {"queue" => @queues.sample(random: random)}
    one = {**queue, "class" => Plain, "args" => [index], "jid" => format("%024x", random.rand(1 << 96))}
    case random.rand(12)
    when 0 then {**queue, "class" => Plain, "args" => Array.new(2 + random.rand(40)) { |part| [part] }}
    when 1, 2 then {**one, "at" => Time.now.to_f + random.rand * 2}
    when 3, 4 then @fails ? {**one, "class" => Flaky, "args" => [index, 1 + random.rand(2)]} : one
    when 5..7 then {**one, "class" => Brief}
    else one
    end
  end

  def push(job)
    from, refusals = Gate.monotonic, []
    begin
      job.key?("jid") ? Sidekiq::Client.push(job) : Sidekiq::Client.push_bulk(job)
      @pushes << Push.new(from, Gate.monotonic, refusals) if @insists
    rescue Store::ERROR => error
      sleep 0.05
      return unless @insists
      Gate.monotonic - from < PUSH_SECONDS_MAX or PROCESSES.give_up(nil, "no push has gone through for #{PUSH_SECONDS_MAX} s: #{error.message}")
      refusals << error.message
      retry
    end
  end
end
