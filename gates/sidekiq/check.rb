# One line of an account: what was found, and what was wanted, which is a value or a range. True if it is right.
def check(what, found, wanted)
  right = wanted === found # rubocop:disable Style/CaseEquality (a value or a range)
  printf("%-5s %-71s %s%s\n", right ? "ok" : "WRONG", what, found, right ? "" : ", wanted #{wanted}")
  right
end
