# HAProxy in front of several servers: it lets clients through to the one that says it is the primary, so that they keep one address.
#
# A change of primaries takes it INTERVAL_MS to see, and who asks the old one meanwhile is told READONLY, connects again, and is told so
# again. So `drain` sends no new connections there while the change is made. They go to `nobody`, which refuses them, and HAProxy tries
# again until there is a primary: a waiting room, in which clients notice nothing but the time.

require "socket"

class Proxy
  INTERVAL_MS = 100
  CLIENTS_MAX = 2000
  SWITCH_SECONDS_MAX = 10

  attr_reader :port

  def initialize(folder, nodes)
    @file, @socket, @nodes = File.join(folder, "haproxy.cfg"), File.join(folder, "haproxy.sock"), nodes
    @port = Processes.free_port
    File.write(@file, configuration)
  end

  def start
    @pid = PROCESSES.start("haproxy", Node.installed("haproxy"), "-db", "-f", @file)
    started = reached_within?(Processes::START_SECONDS_MAX) do
      PROCESSES.check([@pid])
      primary
    end
    started or PROCESSES.give_up(@pid, "HAProxy sees no primary")
    @pid
  end

  def url = "redis://127.0.0.1:#{@port}/0"

  # That node gets no new connections while the block runs.
  def drain(node)
    ask("set server primary/#{node.name} state drain")
    yield
  ensure
    ask("set server primary/#{node.name} state ready")
  end

  # Returns when it sends clients to that one and to no other.
  def await(node)
    reached_within?(SWITCH_SECONDS_MAX) { primary == node.name } or PROCESSES.give_up(@pid, "HAProxy does not see that #{node.name} is the primary")
  end

  private

  def configuration
    <<~END
      global
        stats socket #{@socket} level admin
      defaults
        mode tcp
        maxconn #{CLIENTS_MAX}
        timeout connect 100ms
        timeout check 5s
        retries 100
        option redispatch 1
        timeout client 1h
        timeout server 1h
      frontend jobs
        bind 127.0.0.1:#{@port}
        default_backend primary
      backend primary
        option tcp-check
        tcp-check send "INFO replication\\r\\nQUIT\\r\\n"
        tcp-check expect string role:master
        default-server check inter #{INTERVAL_MS}ms fall 1 rise 1 on-marked-down shutdown-sessions
      #{@nodes.map { |node| "  server #{node.name} #{node.host}:#{node.port}" }.join("\n")}
        server nobody 127.0.0.1:1 backup no-check
    END
  end

  # The name of the server that it takes for the primary, once it takes none of the others for one; else nil.
  def primary
    states = ask("show stat").lines.map { |line| line.split(",") }.select { |row| row[0] == "primary" }.to_h { |row| [row[1], row[17]] }
    left = states.slice(*@nodes.map(&:name)).reject { |_, state| state.start_with?("DOWN") }
    left.keys[0] if left.values == ["UP"]
  rescue SystemCallError
    nil
  end

  def ask(what)
    UNIXSocket.open(@socket) do |socket|
      socket.puts(what)
      socket.read
    end
  end
end
