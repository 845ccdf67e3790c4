# The words of a command line, NAME=value each. They may stand in the environment as well, where an empty one counts as none.
#
# Returns what was given over `defaults`; `others` are names that have no default.
def words(defaults, others = [])
  names = [*defaults.keys, *others]
  given = ARGV.to_h { |word| word.split("=", 2) }
  unknown = given.keys - names
  abort "unknown: #{unknown.join(" ")}; the words are #{names.join(" ")}" if unknown.any?
  defaults.merge(ENV.to_h.slice(*names).merge(given).reject { |_, value| value.to_s.empty? }).freeze
end

# The number that a word stands for.
def number(word, range = 1..100_000_000)
  Integer(word, exception: false)&.clamp(range) or abort "#{word} is not a number"
end
