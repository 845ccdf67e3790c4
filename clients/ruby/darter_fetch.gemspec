Gem::Specification.new do |spec|
  spec.name = "darter_fetch"
  spec.version = "0.1.0"
  spec.summary = "Has Sidekiq take its jobs with leases from Darter"
  spec.authors = ["The Darter maintainers"]
  spec.license = "Apache-2.0"
  spec.files = ["darter_fetch.rb"]
  spec.require_paths = ["."]
  spec.required_ruby_version = ">= 2.7"
  spec.add_dependency "sidekiq", ">= 6.4", "< 9"
end
