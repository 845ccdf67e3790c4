# Chooses the Sidekiq of a run: 6 is Debian 12's, in this machine's own Ruby; 7 is Debian 13's, from the folder that
# `setup` unpacked. That folder is not installed and not entered by chroot: its Ruby is started through its own dynamic
# loader, with the library, load and gem paths of the folder. A script calls Stack.enter first; where another Ruby is
# needed, the script starts over in it. Processes started later inherit the paths, so Stack::RUBY is all they need.

module Stack
  ROOT = File.expand_path("../..", __dir__)
  TRIXIE = File.join(ROOT, ".cache/trixie")
  MARK = "GATE_SIDEKIQ_STACK"
  # Where `setup jruby` keeps it: outside the repository, as it is large and the same for every checkout.
  JRUBY_JAR = File.join(ENV["XDG_CACHE_HOME"] || File.expand_path("~/.cache"), "darter/jruby-complete-9.4.12.0.jar")
  # The words that start this very Ruby again.
  RUBY = [*ENV["#{MARK}_LOADER"]&.split("\n"), RbConfig.ruby].freeze

  def self.enter(version)
    abort "the Sidekiq to run is 6 or 7, not #{version.inspect}" unless %w[6 7].include?(version)
    enter_trixie if version == "7" && ENV[MARK] != "7"
    require "sidekiq"
    require "sidekiq/api"
    found = Sidekiq::VERSION
    abort "Sidekiq #{found} found, where #{version} is wanted: run gates/sidekiq/setup #{version}" if found[0] != version
  rescue LoadError => error
    abort "#{error.message}: run gates/sidekiq/setup #{version}"
  end

  # The words that start the Ruby of the workers, and its environment: this very Ruby, or JRuby with Debian's Sidekiq 6.
  def self.worker_ruby(name)
    return [RUBY, {}] if name == "ruby"
    abort "the workers' Ruby is ruby or jruby, not #{name.inspect}" unless name == "jruby"
    abort "JRuby runs Sidekiq 6 only" unless Sidekiq::VERSION.start_with?("6.")
    abort "JRuby is not there yet: run gates/sidekiq/setup jruby" unless File.exist?(JRUBY_JAR)
    gems = Gem.loaded_specs["sidekiq"].base_dir
    [["java", "-jar", JRUBY_JAR], {"GEM_HOME" => gems, "GEM_PATH" => gems}]
  end

  def self.enter_trixie
    abort "Sidekiq 7 is not there yet: run gates/sidekiq/setup 7" unless File.exist?("#{TRIXIE}/ready")
    loader = only("#{TRIXIE}/usr/lib{64,}/ld-linux-*.so.*")
    libraries = only("#{TRIXIE}/usr/lib/*-linux-gnu*")
    ruby = only("#{TRIXIE}/usr/bin/ruby3.*")
    api = "#{ruby[/3\.\d+\z/]}.0"
    vendor = ["#{TRIXIE}/usr/lib/ruby/vendor_ruby", "#{libraries}/ruby/vendor_ruby/#{api}"]
    gems = ["#{TRIXIE}/usr/share/rubygems-integration", "#{libraries}/rubygems-integration"]
    start = [loader, "--library-path", libraries]
    environment = {
      MARK => "7",
      "#{MARK}_LOADER" => start.join("\n"),
      "RUBYLIB" => [*vendor, "#{TRIXIE}/usr/lib/ruby/#{api}", "#{libraries}/ruby/#{api}"].join(":"),
      "GEM_PATH" => gems.flat_map { |gem| ["#{gem}/all", "#{gem}/#{api}"] }.join(":"),
      "RUBYOPT" => nil,
      "LC_ALL" => "C.UTF-8"
    }
    exec(environment, *start, ruby, File.expand_path($PROGRAM_NAME), *ARGV)
  end

  def self.only(pattern)
    Dir.glob(pattern).min or abort "#{pattern} is missing: delete #{TRIXIE} and run gates/sidekiq/setup 7"
  end
  private_class_method :enter_trixie, :only
end
