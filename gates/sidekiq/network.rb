# Machines of its own for a run: network namespaces that hang on a bridge, so that a cable can be cut. The script itself runs in the one
# with the bridge. All of them vanish with the last process in them. Where that is not possible everything runs on this machine's
# loopback, and no cable can be cut.

class Network
  MARK = "GATE_NETWORK"
  LOOPBACK, OWN = "loopback", "own"
  ADDRESS = "10.77.0."
  Machine = Struct.new(:host, :prefix, :cable)

  # Starts the script over in a namespace of its own, if there can be one with machines beside it. Not needed for Stack.enter, which may come after it.
  def self.enter
    return if ENV[MARK]
    unshare = ["unshare", "--net", *("--map-root-user" unless Process.uid.zero?)]
    trial = "ip link set lo up && ip link add bridge type bridge && ip link add one type veth peer name other && unshare --net true"
    ENV["PATH"] += ":/usr/sbin"
    possible = system(*unshare, "sh", "-c", trial, %i[out err] => File::NULL)
    exec({MARK => OWN}, *unshare, RbConfig.ruby, File.expand_path($PROGRAM_NAME), *ARGV) if possible
    ENV[MARK] = LOOPBACK
  end

  def initialize
    @machines = 0
    return unless cuts?
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge", "type", "bridge")
    ip("addr", "add", "#{host}/24", "dev", "bridge")
    ip("link", "set", "bridge", "up")
  end

  # Whether cables can be cut.
  def cuts? = ENV[MARK] == OWN

  # The address of the script.
  def host = cuts? ? "#{ADDRESS}1" : "127.0.0.1"

  # One more, with the words that start a program there.
  def machine
    @machines += 1
    return Machine.new(host, [], nil) unless cuts?
    cable, address = "cable#{@machines}", "#{ADDRESS}#{10 + @machines}"
    inside = machine_process
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", inside.to_s)
    ip("link", "set", cable, "master", "bridge", "up")
    prefix = ["nsenter", "--target", inside.to_s, "--net", "--"]
    [%w[link set lo up], ["addr", "add", "#{address}/24", "dev", "eth0"], %w[link set eth0 up]].each { |words| run(*prefix, "ip", *words) }
    Machine.new(address, prefix, cable)
  end

  def cut(machine) = ip("link", "set", machine.cable, "down")

  def mend(machine) = ip("link", "set", machine.cable, "up")

  private

  # A process that does nothing, in a namespace that is not ours any more.
  def machine_process
    pid = PROCESSES.start("machine-#{@machines}", "unshare", "--net", "sleep", "infinity")
    ours = File.readlink("/proc/self/ns/net")
    apart = reached_within?(5) do
      PROCESSES.check([pid])
      File.readlink("/proc/#{pid}/ns/net") != ours
    end
    apart ? pid : PROCESSES.give_up(pid, "there is no network namespace for machine #{@machines}")
  end

  def ip(*words) = run("ip", *words)

  def run(*words) = system(*words) || abort("#{words.join(" ")} failed")
end
