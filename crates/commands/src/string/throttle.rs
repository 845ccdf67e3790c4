//! CL.THROTTLE, a rate limiter: the command of the module redis-cell.
//!
//! The algorithm is GCRA (generic cell rate algorithm, ITU-T I.371). The value of a key is its *theoretical
//! arrival time* in nanoseconds since 1970: the time at which the bucket will be empty again. After a burst
//! of `max_burst` more, requests may follow each other in *emission intervals*. The key expires at its
//! arrival time, because it has no meaning afterwards.
//!
//! ```text
//!   now                    arrival time        now + tolerance
//!    |------ reset after ------|-- remaining ------|          tolerance = interval * (max_burst + 1)
//! ```

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key,
    parse_i64,
};
use keyspace::Str;

pub(super) const CL_THROTTLE: Entry = Entry {
    name: "cl.throttle",
    summary: "Limits a rate: says whether an action may be taken now, and counts it if so.",
    since: "",
    group: Group::String,
    arity: -5,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[
        key("key", 0),
        integer("max-burst"),
        integer("count-per-period"),
        integer("period"),
        integer("quantity").optional(),
    ],
    reply: Shape::Tuple(&[Shape::Int, Shape::Int, Shape::Int, Shape::Int, Shape::Int]),
    note: "A command of the module redis-cell; seconds are rounded up",
    run: Run::Function(throttle),
    ..Entry::DEFAULT
};

const NS_PER_S: i128 = 1_000_000_000;
const NS_PER_MS: i128 = 1_000_000;
/// The number of seconds until the next try, if the action is allowed or never will be.
const NO_RETRY: i64 = -1;

/// The rate of actions that is allowed.
struct Limit {
    /// The average time between two actions.
    interval_ns: i128,
    /// How far the actions may run ahead of their times.
    tolerance_ns: i128,
    /// Actions at once.
    burst: i64,
}

/// The reply to a request.
#[derive(PartialEq, Debug)]
struct Verdict {
    /// The new arrival time, if the action is allowed.
    arrival_ns: Option<i128>,
    remaining: i64,
    /// `None`: no need to try again, or no use.
    retry_after_ns: Option<i128>,
    reset_after_ns: i128,
}

impl Limit {
    fn new(max_burst: i64, count: i64, period_s: i64) -> Result<Limit, CommandError> {
        if max_burst < 0 || count < 1 || period_s < 1 {
            return Err(CommandError::OUT_OF_RANGE_POSITIVE);
        }
        let interval_ns = i128::from(period_s) * NS_PER_S / i128::from(count);
        let burst = max_burst.checked_add(1).ok_or(CommandError::OUT_OF_RANGE)?;
        let tolerance_ns = interval_ns * i128::from(burst);
        // The end of the tolerance must be a representable time.
        if interval_ns == 0 || tolerance_ns > i128::from(i64::MAX) / 2 {
            return Err(CommandError::OUT_OF_RANGE);
        }
        Ok(Limit { interval_ns, tolerance_ns, burst })
    }

    fn judge(&self, arrival_ns: Option<i128>, now_ns: i128, quantity: i64) -> Verdict {
        let arrival_ns = arrival_ns.unwrap_or(now_ns);
        let increment_ns = self.interval_ns * i128::from(quantity);
        let next_ns = arrival_ns.max(now_ns) + increment_ns;
        let too_early_ns = next_ns - self.tolerance_ns - now_ns;
        let is_allowed = too_early_ns <= 0;
        let reset_after_ns = if is_allowed { next_ns } else { arrival_ns } - now_ns;
        let room_ns = self.tolerance_ns - reset_after_ns;
        Verdict {
            arrival_ns: is_allowed.then_some(next_ns),
            remaining: (room_ns.max(0) / self.interval_ns).min(i128::from(i64::MAX)) as i64,
            retry_after_ns: (!is_allowed && increment_ns <= self.tolerance_ns).then_some(too_early_ns),
            reset_after_ns: reset_after_ns.max(0),
        }
    }
}

fn throttle(ctx: &mut Ctx) -> CommandResult {
    if ctx.args.len() > 6 {
        return Err(CommandError::wrong_arity("cl.throttle"));
    }
    let key = ctx.args[1];
    let limit = Limit::new(parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?, parse_i64(ctx.args[4])?)?;
    let quantity = ctx.args.get(5).map_or(Ok(1), |quantity| parse_i64(quantity))?;
    if quantity < 0 {
        return Err(CommandError::OUT_OF_RANGE_POSITIVE);
    }
    let now_ns = i128::from(ctx.store.now()) * NS_PER_MS;
    let arrival_ns = match ctx.store.write_as::<Str>(key)? {
        Some(string) => Some(i128::from(string.int().ok_or(CommandError::NOT_AN_INTEGER)?)),
        None => None,
    };
    let verdict = limit.judge(arrival_ns, now_ns, quantity);
    if let Some(arrival_ns) = verdict.arrival_ns.filter(|arrival_ns| *arrival_ns > now_ns) {
        let (value, expiry_ms) = (arrival_ns.to_string(), div_ceil(arrival_ns, NS_PER_MS));
        ctx.store.set_string(key, value.as_bytes(), Some(expiry_ms));
        ctx.store.changed_with(key, Change::new(Class::String, "set"), |store| {
            let expiry = expiry_ms.to_string();
            store.effect(&[b"SET", key, value.as_bytes(), b"PXAT", expiry.as_bytes()]);
        });
    }
    ctx.reply.array(5);
    ctx.reply.int(i64::from(verdict.arrival_ns.is_none()));
    ctx.reply.int(limit.burst);
    ctx.reply.int(verdict.remaining);
    ctx.reply.int(verdict.retry_after_ns.map_or(NO_RETRY, |ns| div_ceil(ns, NS_PER_S)));
    ctx.reply.int(div_ceil(verdict.reset_after_ns, NS_PER_S));
    Ok(())
}

/// Converts to a larger unit, rounded up.
fn div_ceil(ns: i128, unit_ns: i128) -> i64 {
    (ns + unit_ns - 1).div_euclid(unit_ns) as i64
}

#[cfg(test)]
mod tests {
    use engine::Local;

    /// Checks the reply at each of these times, in milliseconds after the first.
    #[track_caller]
    fn check(steps: &[(i64, &str, [i64; 5])]) {
        let mut local = Local::new(crate::FAMILIES);
        let start = local.now;
        for (ms, line, expected) in steps {
            local.now = start + ms;
            let shown: String = expected.iter().map(|number| format!(":{number}\r\n")).collect();
            assert_eq!(local.line(line), format!("*5\r\n{shown}"), "{line} at {ms} ms");
        }
    }

    #[test]
    fn a_burst_is_followed_by_a_steady_rate() {
        check(&[
            (0, "CL.THROTTLE k 4 1 1 6", [1, 5, 5, -1, 0]),
            (0, "CL.THROTTLE k 4 1 1", [0, 5, 4, -1, 1]),
            (0, "CL.THROTTLE k 4 1 1 4", [0, 5, 0, -1, 5]),
            (0, "CL.THROTTLE k 4 1 1", [1, 5, 0, 1, 5]),
            (3000, "CL.THROTTLE k 4 1 1", [0, 5, 2, -1, 3]),
            (3100, "CL.THROTTLE k 4 1 1", [0, 5, 1, -1, 4]),
            (8000, "CL.THROTTLE k 4 1 1", [0, 5, 4, -1, 1]),
            (9500, "CL.THROTTLE k 4 1 1 0", [0, 5, 5, -1, 0]),
            (9500, "CL.THROTTLE k 4 1 1 2", [0, 5, 3, -1, 2]),
            (9500, "CL.THROTTLE k 4 1 1 5", [1, 5, 3, 2, 2]),
        ]);
    }

    #[test]
    fn the_key_goes_when_it_says_nothing_any_more() {
        let mut local = Local::new(crate::FAMILIES);
        local.line("CL.THROTTLE k 0 2 1");
        assert_eq!(local.line("PTTL k"), ":500\r\n");
        local.now += 501;
        assert_eq!(local.line("EXISTS k"), ":0\r\n");
        local.line("CL.THROTTLE k 0 2 1 0");
        assert_eq!(local.line("EXISTS k"), ":0\r\n");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut local = Local::new(crate::FAMILIES);
        for (line, error) in [
            ("k -1 1 1", "ERR value is out of range, must be positive"),
            ("k 1 0 1", "ERR value is out of range, must be positive"),
            ("k 1 1 0", "ERR value is out of range, must be positive"),
            ("k 1 1 1 -1", "ERR value is out of range, must be positive"),
            ("k x 1 1", "ERR value is not an integer or out of range"),
            ("k 9223372036854775807 1 1", "ERR value is out of range"),
            ("k 1 9223372036854775807 1", "ERR value is out of range"),
            ("k 1 1 9223372036854775807", "ERR value is out of range"),
            ("k 1 1 1 1 1", "ERR wrong number of arguments for 'cl.throttle' command"),
        ] {
            assert_eq!(local.line(&format!("CL.THROTTLE {line}")), format!("-{error}\r\n"), "{line}");
        }
        local.line("SET k text");
        assert_eq!(local.line("CL.THROTTLE k 1 1 1"), "-ERR value is not an integer or out of range\r\n");
        local.line("SET k -9223372036854775808");
        assert!(local.line("CL.THROTTLE k 1 1 1 9223372036854775807").starts_with("*5"));
    }
}
