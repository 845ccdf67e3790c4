# Three redis-sentinels that watch a primary by the name of `jobs`, unmodified, each on a machine given.

class Sentinels
  NAME = "jobs"
  QUORUM = 2
  # A Sentinel waits for twice that until it tries the next failover.
  FAILOVER_TIMEOUT_MS = 5000

  attr_reader :nodes
  # The address of a machine whose Sentinel is not asked who the primary is, since it would not answer.
  attr_writer :cut_off

  def initialize(folder, machines, primary, down_after_ms)
    @nodes = machines.each_with_index.map do |machine, index|
      file = File.join(folder, "sentinel-#{index}.conf")
      File.write(file, <<~END)
        protected-mode no
        dir #{folder}
        sentinel monitor #{NAME} #{primary.host} #{primary.port} #{QUORUM}
        sentinel down-after-milliseconds #{NAME} #{down_after_ms}
        sentinel failover-timeout #{NAME} #{FAILOVER_TIMEOUT_MS}
      END
      Node.new("sentinel-#{index}", Node.installed("redis-server"), file, "--sentinel", host: machine.host, prefix: machine.prefix)
    end
  end

  def start = @nodes.map { |node| node.start.pid }

  # As the clients' libraries want it.
  def addresses = @nodes.map { |node| "#{node.host}:#{node.port}" }.join(",")

  # Whether most of them say that this is the primary.
  def elected?(node)
    asked = @nodes.reject { |sentinel| sentinel.host == @cut_off }
    asked.count { |sentinel| sentinel.tried { sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME) } == [node.host, node.port.to_s] } >= QUORUM
  end

  # Has them change the roles, though all are well.
  def hand_over = @nodes.last.call("SENTINEL", "FAILOVER", NAME)

  # Whether each of them knows all others, this primary, and so many replicas, which are well.
  def content?(primary, replicas) = @nodes.all? { |sentinel| sentinel.tried { knows_all?(sentinel, primary, replicas) } }

  private

  def knows_all?(sentinel, primary, count)
    said = sentinel.info("sentinel")["master0"].to_s.split(",")
    all = ["status=ok", "address=#{primary.host}:#{primary.port}", "slaves=#{count}", "sentinels=#{@nodes.size}"].all? { |word| said.include?(word) }
    replicas = sentinel.call("SENTINEL", "REPLICAS", NAME).map { |one| one.to_a.flatten.each_slice(2).to_h }
    all && replicas.all? { |replica| replica["master-link-status"] == "ok" && replica["flags"] == "slave" }
  end
end
