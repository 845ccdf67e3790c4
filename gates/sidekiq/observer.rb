# What the servers and Sentinels of a run say of themselves, once a second, in a file beside their logs: where to look when a change of the
# primary takes long or does not come. Each node is asked by a thread of its own, since one that hangs answers late.

class Observer
  FILE = "observed"
  # Of what Sentinel says of an instance.
  INSTANCE = %w[port flags link-pending-commands last-ping-sent last-ok-ping-reply last-ping-reply s-down-time info-refresh role-reported
                role-reported-time master-host master-port master-link-status slave-repl-offset slave-priority].freeze

  def initialize(folder, servers, sentinels)
    @path, @servers, @sentinels = File.join(folder, FILE), servers, sentinels
    @latest = {}
  end

  def start
    @file = File.open(@path, File::WRONLY | File::APPEND | File::CREAT)
    observe(@servers) { |node| words(node.replication) }
    observe(@sentinels) { |node| watched(node) }
  end

  # The last line of each.
  def latest = @latest.values

  private

  def observe(nodes)
    nodes.each do |node|
      Thread.new do
        loop do
          note(node, yield(node))
        rescue Store::ERROR => error
          note(node, error.message)
        ensure
          sleep 1
        end
      end
    end
  end

  def note(node, said)
    @latest[node] = format("%.1f %s:%s %s %s\n", Gate.monotonic, node.host, node.port, node.name, said)
    @file.syswrite(@latest[node])
  end

  def watched(sentinel)
    replicas = sentinel.call("SENTINEL", "REPLICAS", Sentinels::NAME)
    instances = [sentinel.call("SENTINEL", "MASTER", Sentinels::NAME), *replicas].map { |said| words(said.to_a.flatten.each_slice(2).to_h.slice(*INSTANCE)) }
    [words(sentinel.info("sentinel").slice("sentinel_tilt")), *instances].join(" | ")
  end

  def words(said) = said.map { |name, value| "#{name}=#{value}" }.join(" ")
end
