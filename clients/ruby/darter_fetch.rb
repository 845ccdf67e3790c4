# Has Sidekiq (6.4, 7, 8) take its jobs with leases from Darter, so that no job is lost with its process:
#
#   require "darter_fetch"
#   Sidekiq.configure_server { |config| Darter::Fetch.use(config) }
#
# Nothing else changes: jobs are pushed, retried and scheduled by Sidekiq as before, and processes with and without it can work on
# the same queues. When a process is killed, its jobs run again elsewhere within the lease.

require "securerandom"
require "socket"
require "sidekiq"
require "sidekiq/fetch"

module Darter
  class Fetch < Sidekiq::BasicFetch
    # How long a call waits for a job: an idle thread looks that often whether its process stops.
    WAIT_SECONDS = 2
    # So many times in a lease the process says which jobs it still has.
    BEATS_PER_LEASE = 4

    # A job with a lease, as Sidekiq's processor wants it. It names its attempt: if the lease has ended, another process may
    # have the job.
    Work = Struct.new(:queue, :id, :attempt, :job, :fetch) do
      def queue_name = queue.delete_prefix("queue:")

      # Nothing is said of a job that has been given back: another process may have it, in an attempt of the same number.
      def acknowledge = fetch.forget(self) && fetch.call("JOB.DONE", queue, "ATTEMPT", id, attempt)

      # Of a thread that took a job while its process stops. It is not killed meanwhile.
      def requeue = Thread.handle_interrupt(Sidekiq::Shutdown => :never) { fetch.forget(self) && release }

      def release = fetch.call("JOB.RELEASE", queue, "ATTEMPT", id, attempt)

      # Sidekiq logs the jobs that it gives back.
      def inspect = "#<Darter::Fetch::Work #{queue} #{id}, attempt #{attempt}>"
      alias_method :to_s, :inspect
    end

    class << self
      # After so many seconds the jobs of a process that was killed run again.
      attr_accessor :lease_seconds

      # Has all of this process's jobs taken this way. To be called in Sidekiq.configure_server.
      def use(config, lease_seconds: 30)
        self.lease_seconds = lease_seconds
        if Sidekiq::VERSION.to_i >= 7
          config[:fetch_class] = self
        else
          options = config.respond_to?(:options) ? config.options : config
          options[:fetch] = new(options)
        end
      end
    end

    def initialize(options)
      super
      @darter_queues = @queues.grep(String)
      @worker = "#{Socket.gethostname}:#{Process.pid}:#{SecureRandom.hex(6)}"
      @lease_ms = (self.class.lease_seconds * 1000).to_i
      @start = Mutex.new
      @lock = Mutex.new
      # The jobs that this process has, and the threads that do them.
      @works = {}.compare_by_identity
      @stops = false
      @calls = 0
      @no_calls = ConditionVariable.new
    end

    def retrieve_work
      keep
      queues = @strictly_ordered_queues ? @darter_queues : @darter_queues.shuffle.uniq
      return sleep(WAIT_SECONDS) && nil if queues.empty?
      return unless begin_call
      begin
        work = take(queues)
      ensure
        end_call(work)
      end
    end

    # Of a process that stops: gives back what has not ended in time. First its threads that still wait for jobs come back, so that
    # none of them takes what is given back.
    def bulk_requeue(_inprogress, _options = nil)
      works = @lock.synchronize do
        @stops = true
        limit = now + WAIT_SECONDS + 1
        @no_calls.wait(@lock, [limit - now, 0.01].max) while @calls > 0 && now < limit
        @works.keys.tap { @works.clear }
      end
      # What is given back last comes first.
      works.reverse_each(&:release)
    rescue => error
      # They come back when their leases end.
      Sidekiq.logger.warn("Could not give #{works&.size} jobs back: #{error.message}")
    end

    # Takes a job off those that this process has. False if it has been given back.
    def forget(work) = !@lock.synchronize { @works.delete(work) }.nil?

    def call(*command) = connection { |redis| redis.call(*command) }

    private

    def connection(&block) = respond_to?(:redis, true) ? redis(&block) : Sidekiq.redis(&block)

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Says that this thread waits for a job. False if the process stops.
    def begin_call
      @lock.synchronize do
        # A job that its thread neither acknowledged nor gave back failed within Sidekiq: its lease ends.
        @works.delete_if { |_, thread| thread == Thread.current || !thread.alive? }
        @calls += 1 unless @stops
        !@stops
      end
    end

    def end_call(work)
      @lock.synchronize do
        @works[work] = Thread.current if work
        @calls -= 1
        @no_calls.broadcast if @calls.zero?
      end
      work
    end

    def take(queues)
      taken = wait("JOB.TAKE", @worker, "LEASE", @lease_ms, "WAIT", WAIT_SECONDS * 1000, "FROM", *queues)
      queue, id, attempt, job = taken&.first
      queue && Work.new(queue, id, attempt, job, self)
    end

    # A command that waits on the server.
    def wait(*command)
      connection do |redis|
        next redis.blocking_call(WAIT_SECONDS, *command) if redis.respond_to?(:blocking_call)
        # redis-rb 4, of Sidekiq 6.
        redis._client.call_with_timeout(command, WAIT_SECONDS)
      end
    end

    # Starts to keep the leases of this process's jobs.
    def keep
      return if @keeper&.alive?
      @start.synchronize do
        @keeper ||= Thread.new do
          loop do
            works.each { |work| call("JOB.KEEP", work.queue, @lease_ms, "ATTEMPT", work.id, work.attempt) }
          rescue => error
            Sidekiq.logger.warn("Could not keep leases: #{error.message}")
          ensure
            sleep(@lease_ms / 1000.0 / BEATS_PER_LEASE)
          end
        end
      end
    end

    # The jobs that this process has. One whose reply was lost, or whose thread has died, is not kept, and comes back.
    def works = @lock.synchronize { @works.select { |_, thread| thread.alive? }.keys }
  end
end
