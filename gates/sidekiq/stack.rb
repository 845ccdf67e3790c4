# Chooses the Sidekiq of a run: 6 is Debian 12's, in this machine's own Ruby; 7 and 8 are Debian 13's and 14's, from the
# folders that `setup` unpacked. Such a folder is not installed and not entered by chroot: its Ruby is started through its
# own dynamic loader, with the library, load and gem paths of the folder. A script calls Stack.enter first; where another
# Ruby is needed, the script starts over in it. Processes started later inherit the paths, so Stack::RUBY is all they need.

module Stack
  ROOT = File.expand_path("../..", __dir__)
  # Debian's suites that `setup` unpacks, by the Sidekiq that they have.
  SUITES = {"7" => "trixie", "8" => "forky"}.freeze
  # How scripts declare their option for it.
  OPTION = ["--sidekiq 6|7|8", "Debian's 6.4.1 (RESP2), 7.3.2 or 8.1 (RESP3)"].freeze
  MARK = "GATE_SIDEKIQ_STACK"
  # Where `setup jruby` keeps it: outside the repository, as it is large and the same for every checkout.
  JRUBY_JAR = File.join(ENV["XDG_CACHE_HOME"] || File.expand_path("~/.cache"), "darter/jruby-complete-9.4.12.0.jar")
  # The words that start this very Ruby again.
  RUBY = [*ENV["#{MARK}_LOADER"]&.split("\n"), RbConfig.ruby].freeze

  def self.enter(version)
    abort "the Sidekiq to run is 6, 7 or 8, not #{version.inspect}" unless ["6", *SUITES.keys].include?(version)
    enter_suite(version) if SUITES.key?(version) && ENV[MARK] != version
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

  def self.enter_suite(version)
    folder = File.join(ROOT, ".cache", SUITES[version])
    abort "Sidekiq #{version} is not there yet: run gates/sidekiq/setup #{version}" unless File.exist?("#{folder}/ready")
    only = lambda do |pattern|
      Dir.glob(folder + pattern).min or abort "#{folder}#{pattern} is missing: delete #{folder} and run gates/sidekiq/setup #{version}"
    end
    loader = only.call("/usr/lib{64,}/ld-linux-*.so.*")
    libraries = only.call("/usr/lib/*-linux-gnu*")
    ruby = only.call("/usr/bin/ruby3.*")
    api = "#{ruby[/3\.\d+\z/]}.0"
    vendor = ["#{folder}/usr/lib/ruby/vendor_ruby", "#{libraries}/ruby/vendor_ruby/#{api}"]
    gems = ["#{folder}/usr/share/rubygems-integration", "#{libraries}/rubygems-integration"]
    start = [loader, "--library-path", libraries]
    environment = {
      MARK => version,
      "#{MARK}_LOADER" => start.join("\n"),
      "RUBYLIB" => [*vendor, "#{folder}/usr/lib/ruby/#{api}", "#{libraries}/ruby/#{api}"].join(":"),
      "GEM_PATH" => gems.flat_map { |gem| ["#{gem}/all", "#{gem}/#{api}"] }.join(":"),
      "RUBYOPT" => nil,
      "LC_ALL" => "C.UTF-8"
    }
    exec(environment, *start, ruby, File.expand_path($PROGRAM_NAME), *ARGV)
  end
  private_class_method :enter_suite
end
