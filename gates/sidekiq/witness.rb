# What a process asked of a store that may die meanwhile, and whether it was answered: written beside the store, as jobs.rb does.
# Loaded by the workers (GATE_RECORD=witness) and by the script that pushes. Its lines have as their detail
#
#   begin,end,answered     on the monotonic clock, which all processes of a machine share; true or false
#
# and as their event: push (to a queue or the schedule; by the scheduler, too), fetch (BRPOP), due (what the scheduler took out of a
# sorted set), keep (a failed job's way into the retry set). A fetch or a due that brought nothing has the job `-`.
#
# Nothing that Sidekiq does is changed but one thing: a retry comes without the random delay of up to ten seconds and more.

require "sidekiq/client"
require "sidekiq/fetch"
require "sidekiq/job_retry"
require "sidekiq/scheduled"

module Witness
  NOBODY = "-"

  # Runs the block and writes a line for each of the jobs, or for the one that the block brought.
  def self.note(event, where, jids = nil)
    from, answered, brought = Gate.monotonic, false, nil
    result = yield
    answered = true
    brought = found(result, where) unless jids
    result
  ensure
    where, jid = brought if brought
    detail = "#{from},#{Gate.monotonic},#{answered}"
    (jids || [jid || NOBODY]).each { |each| Gate.record(event, each, "-", where, detail) }
  end

  # Where a job came from, and which one: of what BRPOP or the scheduler's script brought.
  def self.found(result, where)
    case result
    when nil then [where, NOBODY]
    when String then [where, Sidekiq.load_json(result)["jid"]]
    else [result.queue, Sidekiq.load_json(result.job)["jid"]]
    end
  end
  private_class_method :found

  module Client
    private

    def raw_push(payloads)
      where = payloads.first.key?("at") ? "schedule" : "queue:#{payloads.first["queue"]}"
      Witness.note("push", where, payloads.map { |payload| payload["jid"] }) { super }
    end
  end

  module Fetch
    def retrieve_work = Witness.note("fetch", NOBODY) { super }
  end

  module Scheduler
    private

    def zpopbyscore(conn, keys: nil, argv: nil)
      Gate.touch("polls-#{Process.pid}")
      Witness.note("due", keys.first) { super }
    end
  end

  # `attempt_retry` in Sidekiq 6, `process_retry` in 7.
  module Retry
    private

    def attempt_retry(worker, job, queue, error) = Witness.note("keep", "retry", [job["jid"]]) { super }

    def process_retry(worker, job, queue, error) = Witness.note("keep", "retry", [job["jid"]]) { super }

    # Sidekiq spreads retries by this.
    def rand(*) = 0
  end

  Sidekiq::Client.prepend(Client)
  Sidekiq::BasicFetch.prepend(Fetch)
  Sidekiq::Scheduled::Enq.prepend(Scheduler)
  Sidekiq::JobRetry.prepend(Retry)
end
