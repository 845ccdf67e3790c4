# Jobs for the demonstration in compose.yaml: loaded by Sidekiq, and by the application that pushes them.
require "sidekiq"

class Job
  include Sidekiq::Job
  def perform(seconds) = sleep(seconds)
end

# Waves of jobs, so that the charts have something to show.
def push_jobs
  loop do
    100.times { Job.set(queue: %w[default mailers].sample).perform_async(rand / 5) }
    sleep(rand(1.0..4.0))
  end
end
