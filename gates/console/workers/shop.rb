# A shop whose jobs Sidekiq runs, for pictures of the console: shop.rb redis://HOST:PORT SECONDS
#
# Two worker processes of ten threads take what a web site pushes for so many seconds: mails, exports, a slow partner. Some jobs
# fail, some are for later. What it leaves stays.

require_relative "../../sidekiq/stack"
Stack.enter("7")
require_relative "../../sidekiq/processes"
PROCESSES = Processes.new
url, seconds = ARGV
ENV["REDIS_URL"] = "#{url}/0"
require_relative "shop_jobs"

QUEUES = %w[critical default mailers search partner].freeze
2.times do |index|
  words = ["-r", File.join(__dir__, "shop_jobs.rb"), "-e", "production", "-c", "10", "-t", "2", *QUEUES.flat_map { |queue| ["-q", queue] }]
  PROCESSES.start("worker-#{index}", *Stack::RUBY, Gem.bin_path("sidekiq", "sidekiq"), *words)
end

# Jobs a second, by class, queue and arguments.
RATES = {
  ChargeCard => [6, "critical", -> { [rand(90_000)] }],
  UpdateCart => [75, "default", -> { [rand(90_000), {"items" => rand(1..9)}] }],
  OrderMail => [38, "mailers", -> { [rand(90_000), "order_shipped", {"locale" => %w[de en fr].sample}] }],
  ReindexProduct => [62, "search", -> { [rand(4000)] }],
  PartnerExport => [15, "partner", -> { ["orders", rand(90_000)] }]
}.freeze
STEP_SECONDS = 0.25
ends_at = Time.now + seconds.to_f
while Time.now < ends_at
  wave = 1 + 0.35 * Math.sin(Time.now.to_f / 19)
  RATES.each do |job, (rate, queue, args)|
    count = (rate * wave * STEP_SECONDS + rand).floor
    Sidekiq::Client.push_bulk("class" => job, "queue" => queue, "args" => Array.new(count) { args.call }) if count.positive?
  end
  OrderMail.set(queue: "mailers").perform_in(rand(30..7200), rand(90_000), "please_review", {"locale" => "en"}) if rand < 0.4
  sleep STEP_SECONDS
end
