# The account of a run in which the store was interrupted: which jobs it answered for, what the workers wrote about them (jobs.rb,
# witness.rb), and whether anything is missing or twice that the store has to answer for. Without an interruption nothing may be missing.
#
# Not lost by the store is
# - a job that a worker held when the store refused it: the scheduler has taken it out of its set and could not push it, or a job has
#   failed and could not be put into the retry set. Sidekiq knows of no other place for it;
# - a job that left the store with a reply that nobody got: a BRPOP, or the scheduler's script, was under way when the store died. At
#   most one for each such call. And a queue is a queue: what was pushed before that job had been popped by then, and what was popped
#   before that call began was pushed before that job. So a push that is forgotten is found out, as it is the last that goes.
# Not run twice by the store is a job whose push was under way when the store died: redis-rb sends such a command again.
# A store that may lose what it answered shortly before it died (`tolerance`) may also hand out again what it had handed out then.

require_relative "check"

class Verdict
  # An exchange with the store, on the monotonic clock; `where` is the key.
  Call = Struct.new(:event, :where, :from, :to, :answered)
  # What is known of a job.
  Job = Struct.new(:calls, :done, :failed) do
    def pushes = calls.select { |call| call.event == "push" }
    def answered? = pushes.any?(&:answered)
  end

  # Of each, in their order, when it was begun and since when the store has answered nothing more of what it was asked before, on the monotonic clock.
  attr_reader :interruptions

  def initialize(folder, tolerance_seconds = 0)
    @folder, @tolerance_seconds = folder, tolerance_seconds
    @jobs = Hash.new { |jobs, jid| jobs[jid] = Job.new([], 0, 0) }
    @empty_calls = []
    @interruptions = []
    @offsets = Hash.new(0)
    @done_count = @jobs_answered = @answered_done = 0
  end

  # Jobs that the store has answered for.
  attr_reader :jobs_answered

  # Reads the whole lines that have been appended since the last time.
  def read
    Dir.glob(File.join(@folder, "*.runs")).each do |path|
      text = File.read(path, nil, @offsets[path]) or next
      whole = text[0, (text.rindex("\n") || -1) + 1]
      @offsets[path] += whole.bytesize
      whole.each_line { |line| enter(*line.split) }
    end
  end

  # Jobs that were pushed and have not ended, and may have been lost or never arrived.
  def outstanding = @jobs.size - @done_count

  # Those of them that the store has answered for.
  def backlog = @jobs_answered - @answered_done

  def progress = format("%d jobs  %d done", @jobs_answered, @answered_done)

  # What the account tells apart. `with_reply` are lost with the reply of a BRPOP or of the scheduler's script.
  def counts
    judge
    {jobs: @jobs_answered, lost: @lost.size, with_reply: (@fetched - @lost).size + @taken.size, refused: @refused.size, twice: @twice.size, resent: @resent.size}
  end

  # Prints the account, true if all of it is right.
  def account(left)
    judge
    unanswered = @jobs.values.reject(&:answered?)
    puts "#{@jobs.size} jobs, #{unanswered.size} of them without an answer; those ran #{unanswered.sum(&:done)} times",
      "#{@jobs.values.sum(&:failed)} failed and came again", ""
    said("lost or run twice within the time that the store may lose", @recent) if @tolerance_seconds.positive?
    said("run twice as the client sent its push again", @resent)
    refused = "lost by a worker that the store refused"
    interrupted = @interruptions.any?
    said(refused, @refused) if interrupted
    [
      interrupted || check("jobs #{refused}", @refused.size, 0),
      check("jobs lost with the reply of a BRPOP, of #{@cuts.size} under way", (@fetched - @lost).size, 0..@cuts.size),
      check("jobs lost with the reply of the scheduler's script, of #{@dues_cut} under way", @taken.size, 0..@dues_cut),
      check("jobs lost", @lost.size, 0),
      check("jobs run twice", @twice.size, 0),
      check("jobs that nobody pushed", @jobs.count { |_, job| job.pushes.empty? }, 0),
      check("jobs left in the store", left, 0)
    ].all?
  end

  # The lines of a few jobs that should not be as they are.
  def examples = (@lost + @twice).first(5)

  private

  def enter(event, jid, _kind, where, _unix_time, detail)
    return enter_call(event, jid, where, *detail.split(",")) if detail != "-"
    job = @jobs[jid]
    case event
    when "done"
      count_done(job) if job.done.zero?
      job.done += 1
    when "fail" then job.failed += 1
    end
  end

  def enter_call(event, jid, where, from, to, answered)
    call = Call.new(event, where, from.to_f, to.to_f, answered == "true")
    return @empty_calls << call if jid == "-"
    job = @jobs[jid]
    count_answered(job) if event == "push" && call.answered && !job.answered?
    job.calls << call
  end

  # Another process may have been read first.
  def count_answered(job)
    @jobs_answered += 1
    @answered_done += 1 if job.done.positive?
  end

  def count_done(job)
    @done_count += 1
    @answered_done += 1 if job.answered?
  end

  def judge
    @lost, @twice, @refused, @fetched, @taken, @recent, @resent = Array.new(7) { [] }
    @cuts, dues = %w[fetch due].map { |event| calls(event).flat_map { |call| cuts(call) } }
    @dues_cut = dues.size
    @lines = nil
    @jobs.each do |jid, job|
      job.calls.sort_by!(&:to)
      judge_missing(jid, job) if job.done.zero?
      judge_repeated(jid, job) if job.done > 1
    end
    @lost += @fetched - matched(@fetched)
  end

  # The deaths that a call met: each may have taken a job with it.
  def cuts(call) = met(call).map { |_, to| [call.from, to] }

  # The interruptions that a call met. They come one after the other.
  def met(call)
    first = @interruptions.bsearch_index { |_, to| call.from <= to } or return []
    @interruptions[first..].take_while { |from, _| from <= call.to }
  end

  # Those of the jobs for which there is a call of its own that may have taken them (Kuhn's algorithm).
  def matched(jids)
    takers = jids.to_h { |jid| [jid, takers(@jobs[jid])] }
    taken = {}
    place = lambda do |jid, tried|
      takers[jid].any? do |cut|
        next if tried[cut]
        tried[cut] = true
        taken[cut] = jid if !taken[cut] || place.(taken[cut], tried)
      end
    end
    jids.each { |jid| place.(jid, {}) }
    taken.values
  end

  # The calls that may have popped the job: when the store died older ones had been, and no younger one when the call began.
  def takers(job)
    push = job.pushes.last
    older_begun = younger_ended = nil
    lines[push.where].each do |other, fetch|
      older_begun = [older_begun, fetch.from].compact.max if other.to < push.from
      younger_ended = [younger_ended, fetch.to].compact.min if other.from > push.to
    end
    @cuts.each_index.select do |index|
      from, died = @cuts[index]
      died >= [push.from, older_begun].compact.max && (younger_ended.nil? || from <= younger_ended)
    end
  end

  # Of each queue the jobs that were pushed to it once and fetched: how.
  def lines
    @lines ||= @jobs.values.each_with_object(Hash.new { |lines, queue| lines[queue] = [] }) do |job, lines|
      push, *more = job.pushes
      fetch = job.calls.find { |call| call.event == "fetch" }
      lines[push.where] << [push, fetch] if push && fetch && more.empty?
    end
  end

  def calls(event) = (@empty_calls + @jobs.values.flat_map(&:calls)).select { |call| call.event == event }

  # A job that never ended: where was it last?
  def judge_missing(jid, job)
    return unless job.answered?
    last = job.calls.last
    list =
      if !last.answered then @refused
      elsif recent?(last) then @recent
      # A worker had it, and is alive.
      elsif %w[fetch due].include?(last.event) then @lost
      elsif last.where.start_with?("queue:") then @fetched
      else @taken
      end
    list << jid
  end

  def judge_repeated(jid, job)
    list =
      if job.calls.any? { |call| %w[push keep].include?(call.event) && met(call).any? } then @resent
      elsif job.calls.any? { |call| recent?(call) } then @recent
      else @twice
      end
    list << jid
  end

  # Whether the store may forget that it has answered this.
  def recent?(call) = @tolerance_seconds.positive? && @interruptions.any? { |from, to| call.to <= to && call.to >= from - @tolerance_seconds }

  def said(what, jids) = printf("%-5s %-71s %d\n", "", "jobs #{what}", jids.size)
end
