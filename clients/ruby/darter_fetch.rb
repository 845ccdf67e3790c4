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
    # So many times in a lease the process says that it lives.
    BEATS_PER_LEASE = 4

    # A job with a lease, as Sidekiq's processor wants it. It names its attempt: if the lease has ended, another process may
    # have the job.
    Work = Struct.new(:queue, :id, :attempt, :job, :fetch) do
      def queue_name = queue.delete_prefix("queue:")

      def acknowledge = fetch.call("JOB.DONE", queue, "ATTEMPT", id, attempt)

      def requeue = fetch.call("JOB.RELEASE", queue, "ATTEMPT", id, attempt)
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
    end

    def retrieve_work
      keep
      queues = @strictly_ordered_queues ? @darter_queues : @darter_queues.shuffle.uniq
      return sleep(WAIT_SECONDS) && nil if queues.empty?
      taken = wait("JOB.TAKE", @worker, "LEASE", @lease_ms, "WAIT", WAIT_SECONDS * 1000, "FROM", *queues)
      queue, id, attempt, job = taken&.first
      queue && Work.new(queue, id, attempt, job, self)
    end

    # Of a process that stops: jobs that have not ended in time.
    def bulk_requeue(inprogress, _options = nil)
      inprogress.each(&:requeue)
    rescue => error
      # They come back when their leases end.
      Sidekiq.logger.warn("Could not give #{inprogress.size} jobs back: #{error.message}")
    end

    def call(*command) = connection { |redis| redis.call(*command) }

    private

    def connection(&block) = respond_to?(:redis, true) ? redis(&block) : Sidekiq.redis(&block)

    # A command that waits on the server.
    def wait(*command)
      connection do |redis|
        next redis.blocking_call(WAIT_SECONDS, *command) if redis.respond_to?(:blocking_call)
        # redis-rb 4, of Sidekiq 6.
        redis._client.call_with_timeout(command, WAIT_SECONDS)
      end
    end

    # Starts to say that this process lives: none of its leases ends meanwhile.
    def keep
      return if @keeper&.alive?
      @start.synchronize do
        @keeper ||= Thread.new do
          loop do
            @darter_queues.uniq.each { |queue| call("JOB.KEEP", queue, @lease_ms, "WORKER", @worker) }
          rescue => error
            Sidekiq.logger.warn("Could not keep leases: #{error.message}")
          ensure
            sleep(@lease_ms / 1000.0 / BEATS_PER_LEASE)
          end
        end
      end
    end
  end
end
