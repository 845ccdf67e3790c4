# Ports of this machine that only this process uses, until it ends. crates/scratch/src/ports.rs says how and why: both lease from the same
# blocks, by Unix sockets with the names of the blocks.

require "socket"

module Ports
  FIRST, LIMIT, BLOCK_PORTS = 10_000, 32_768, 64
  BLOCKS = (LIMIT - FIRST) / BLOCK_PORTS
  @held, @fresh = [], []

  def self.free
    loop do
      lease if @fresh.empty?
      port = @fresh.shift
      return port if free?(port)
    end
  end

  def self.lease
    start = Random.new_seed % BLOCKS
    BLOCKS.times do |offset|
      block = (start + offset) % BLOCKS
      name = Socket.new(:UNIX, :DGRAM)
      name.bind(Addrinfo.unix("\0darter-ports-#{block}"))
      @held << name
      @fresh.concat((FIRST + block * BLOCK_PORTS...FIRST + (block + 1) * BLOCK_PORTS).to_a)
      return
    rescue Errno::EADDRINUSE
      name.close
    end
    abort "all ports for tests are leased"
  end

  # Only bound: a socket that listens, and that a child inherits for a moment, would keep the server from its port.
  def self.free?(port)
    probe = Socket.new(:INET, :STREAM)
    probe.setsockopt(:SOCKET, :REUSEADDR, true)
    probe.bind(Addrinfo.tcp("0.0.0.0", port))
    true
  rescue Errno::EADDRINUSE
    false
  ensure
    probe&.close
  end
end
