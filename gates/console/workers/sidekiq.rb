# Sidekiq 7 for the test of the console: sidekiq.rb redis://HOST:PORT QUEUE SECONDS
#
# A worker process of two threads runs jobs that take that long. Lines on stdin: `push N` (answer: ids), `ran` (ids). An answer
# is a line of JSON behind "= ". The end of stdin ends it.

require_relative "../../sidekiq/stack"
Stack.enter("7")
require "json"
require_relative "../../sidekiq/processes"
PROCESSES = Processes.new
ENV["GATE_FOLDER"] = PROCESSES.folder
url, queue, seconds = ARGV
ENV["REDIS_URL"] = "#{url}/0"
ENV["CONSOLE_SECONDS"] = seconds
require_relative "sidekiq_jobs"

words = ["-r", File.join(__dir__, "sidekiq_jobs.rb"), "-e", "production", "-c", "2", "-t", "2", "-q", queue]
PROCESSES.start("worker", *Stack::RUBY, Gem.bin_path("sidekiq", "sidekiq"), *words)
$stdout.sync = true
$stdin.each_line do |line|
  word, count = line.split
  answer = if word == "push"
    Sidekiq::Client.push_bulk("class" => InvoiceJob, "queue" => queue, "args" => Array.new(count.to_i) { |index| [index] })
  else
    Dir.glob(File.join(PROCESSES.folder, "*.ran")).flat_map { |file| File.readlines(file, chomp: true) }
  end
  puts "= #{JSON.generate(answer)}"
end
