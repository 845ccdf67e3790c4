# The account of a run: what was pushed, what the workers wrote about each job, and what should have come of it.
# Everything but the last few lines is judged without the store: see jobs.rb for the lines that the workers write.

require_relative "check"

class Ledger
  # What was pushed. `failures` is how often the job must fail; a doomed one fails once and never ends well.
  Pushed = Struct.new(:kind, :queue, :failures, :due_at)
  # What was written about one job. `starts` and `done` hold [pid, unix time] and [pid, unix time, queue].
  Ran = Struct.new(:starts, :done, :failed, :cut, :steps)

  def initialize(folder)
    @folder = folder
    @pushed = {}
    @ran = Hash.new { |ran, jid| ran[jid] = Ran.new([], [], 0, [], []) }
    @offsets = Hash.new(0)
    @lock = Mutex.new
  end

  def pushed(jid, kind, queue, failures: nil, due_at: nil)
    kind = kind.to_s
    failures ||= (kind == "Doomed") ? 1 : 0
    @lock.synchronize { @pushed[jid] = Pushed.new(kind, queue, failures, due_at) }
  end

  # Reads the whole lines that the workers have appended since the last time.
  def read
    Dir.glob(File.join(@folder, "*.runs")).each do |path|
      text = File.read(path, nil, @offsets[path]) or next
      whole = text[0, (text.rindex("\n") || -1) + 1]
      @offsets[path] += whole.bytesize
      pid = File.basename(path, ".runs").to_i
      whole.each_line { |line| enter(pid, *line.split) }
    end
  end

  def all_ended? = @lock.synchronize { @pushed.all? { |jid, pushed| ended?(@ran[jid], pushed) } }

  # The held and stepwise jobs that have begun: [pid, kind] each.
  def holders
    @ran.filter_map do |jid, ran|
      kind = @pushed[jid]&.kind
      [ran.starts.dig(0, 0), kind] if %w[Held Stepwise].include?(kind) && ran.starts.any?
    end
  end

  def progress
    done = @ran.values.count { |ran| ran.done.any? }
    format("%d pushed  %d done  %d failed  %d cut", @pushed.size, done, total(:failed), @ran.values.sum { |ran| ran.cut.size })
  end

  # Prints the account, true if all of it is right.
  def account(seconds)
    print_kinds
    print_queues
    right = judge_jobs & judge_store
    puts "", "#{right ? "all right" : "NOT RIGHT"} after #{seconds.round} s"
    right
  end

  private

  def enter(pid, event, jid, _kind, queue, unix_time, detail)
    ran = @ran[jid]
    case event
    when "start" then ran.starts << [pid, unix_time.to_f]
    when "done" then ran.done << [pid, unix_time.to_f, queue]
    when "fail" then ran.failed += 1
    when "cut" then ran.cut << pid
    when "step" then ran.steps << detail.to_i
    else abort "unknown line of worker #{pid}: #{event}"
    end
  end

  def ended?(ran, pushed) = (pushed.kind == "Doomed") ? ran.failed.positive? : ran.done.any?

  def total(field) = @ran.values.sum(&field)

  def print_kinds
    row = "%-10s %8s %8s %8s %8s %8s %8s %8s\n"
    puts
    printf(row, "", "pushed", "ran", "retried", "dead", "cut", "lost", "twice")
    kinds = @pushed.group_by { |_, pushed| pushed.kind.downcase }
    kinds.each { |kind, jobs| printf(row, kind, *sums(jobs)) }
    printf(row, "total", *sums(@pushed.to_a))
  end

  def sums(jobs)
    rans = jobs.map { |jid, pushed| [@ran[jid], pushed] }
    dead = rans.count { |ran, pushed| pushed.kind == "Doomed" && ran.failed.positive? }
    retried = rans.sum { |ran, pushed| (pushed.kind == "Doomed") ? 0 : ran.failed }
    cut = rans.sum { |ran, _| ran.cut.size }
    lost = rans.count { |ran, pushed| !ended?(ran, pushed) }
    [jobs.size, rans.count { |ran, _| ran.done.any? }, retried, dead, cut, lost, rans.count { |ran, _| ran.done.size > 1 }]
  end

  def print_queues
    pushed = @pushed.values.reject { |job| job.kind == "Doomed" }.map(&:queue).tally
    ran = @ran.values.flat_map { |job| job.done.map(&:last) }.tally
    puts "", "by queue   #{pushed.keys.sort.map { |queue| "#{queue} #{ran[queue].to_i} of #{pushed[queue]}" }.join(", ")}"
    @queues_right = pushed == ran
  end

  def judge_jobs
    known = @ran.select { |jid, _| @pushed.key?(jid) }
    wrong = known.select { |jid, ran| ran.failed != @pushed[jid].failures }
    early = known.select { |jid, ran| @pushed[jid].due_at&.>(ran.starts.dig(0, 1) || Float::INFINITY) }
    cut = known.values.select { |ran| ran.cut.any? }
    stepwise = known.select { |jid, _| @pushed[jid].kind == "Stepwise" }.values
    lost, twice = sums(@pushed.to_a).last(2)
    [
      check("jobs lost", lost, 0),
      check("jobs completed twice", twice, 0),
      check("jobs that nobody pushed", @ran.size - known.size, 0),
      check("jobs that failed more or less often than they should", wrong.size, 0),
      check("scheduled jobs that ran too early", early.size, 0),
      check("jobs cut short by TERM", cut.size, 1..),
      check("cut jobs not completed by another worker", cut.count { |ran| ([ran.done.dig(0, 0)].compact - ran.cut).empty? }, 0),
      check("stepwise jobs with a step missing or repeated", stepwise.count { |ran| ran.steps.sort != (0...10).to_a }, 0),
      check("queues that ran what was pushed to them", @queues_right, true)
    ].all?
  end

  def judge_store
    doomed = @pushed.select { |_, pushed| pushed.kind == "Doomed" }.keys
    ended = @ran.values.sum { |ran| ran.done.size } + total(:failed)
    cut = @ran.values.sum { |ran| ran.cut.size }
    stats = Sidekiq::Stats.new
    [
      check("stat:processed", stats.processed, ended..(ended + cut)),
      check("stat:failed", stats.failed, total(:failed)..(total(:failed) + cut)),
      check("jobs left in queues", Sidekiq::Queue.all.sum(&:size), 0),
      check("jobs left in the schedule", Sidekiq::ScheduledSet.new.size, 0),
      check("jobs left in the retry set", Sidekiq::RetrySet.new.size, 0),
      check("jobs in the dead set", Sidekiq::DeadSet.new.size, doomed.size),
      check("dead jobs are the doomed ones", Sidekiq::DeadSet.new.map(&:jid).sort == doomed.sort, true),
      check("processes still registered", Sidekiq::ProcessSet.new(false).size, 0)
    ].all?
  end
end
