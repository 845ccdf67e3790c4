//! The options of `SET` and `GETEX`, and times in arguments.

use engine::{CommandError, Ctx, keyword_is, parse_i64};
use keyspace::UnixMs;

/// The effect on the expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExpiryOption<'a> {
    /// No option was given.
    Unsaid,
    /// `KEEPTTL`
    Keep,
    /// `PERSIST`
    Persist,
    /// `EX`, `PX`, `EXAT`, `PXAT`
    At(Unit, &'a [u8]),
}

/// The format of a time in an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    /// Whether it is in seconds rather than milliseconds.
    pub(super) seconds: bool,
    /// Whether it counts from 1970 rather than from now.
    pub(super) absolute: bool,
}

impl Unit {
    pub(super) const EX: Unit = Unit { seconds: true, absolute: false };
    pub(super) const PX: Unit = Unit { seconds: false, absolute: false };
    const EXAT: Unit = Unit { seconds: true, absolute: true };
    const PXAT: Unit = Unit { seconds: false, absolute: true };

    /// The time in `arg`, which must be positive.
    pub(super) fn expiry(self, ctx: &Ctx, arg: &[u8]) -> Result<UnixMs, CommandError> {
        let number = parse_i64(arg)?;
        let factor = if self.seconds { 1000 } else { 1 };
        let base = if self.absolute { 0 } else { ctx.store.now() };
        (number > 0)
            .then(|| number.checked_mul(factor)?.checked_add(base))
            .flatten()
            .ok_or_else(|| CommandError::invalid_expire(&ctx.command.full_name))
    }
}

/// The condition under which `SET` has an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// `NX`
    IfAbsent,
    /// `XX`
    IfPresent,
}

/// The options of `SET` or `GETEX`.
pub(super) struct Options<'a> {
    /// `NX` or `XX`
    pub(super) condition: Option<Condition>,
    /// `GET`
    pub(super) get: bool,
    /// The expiry.
    pub(super) expiry: ExpiryOption<'a>,
}

/// The command that the options belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// `SET`
    Set,
    /// `GETEX`
    GetEx,
}

impl<'a> Options<'a> {
    /// Reads options. An option may be repeated, and the last one counts; options that contradict each other are
    /// refused.
    pub(super) fn parse(args: &[&'a [u8]], of: For) -> Result<Options<'a>, CommandError> {
        let mut options = Options { condition: None, get: false, expiry: ExpiryOption::Unsaid };
        let mut rest = args.iter();
        while let Some(&word) = rest.next() {
            if of == For::Set && keyword_is(word, "NX") {
                options.add_condition(Condition::IfAbsent)?;
            } else if of == For::Set && keyword_is(word, "XX") {
                options.add_condition(Condition::IfPresent)?;
            } else if of == For::Set && keyword_is(word, "GET") {
                options.get = true;
            } else if of == For::Set && keyword_is(word, "KEEPTTL") {
                options.add_expiry(ExpiryOption::Keep)?;
            } else if of == For::GetEx && keyword_is(word, "PERSIST") {
                options.add_expiry(ExpiryOption::Persist)?;
            } else {
                let unit = unit(word).ok_or(CommandError::SYNTAX)?;
                let time = rest.next().ok_or(CommandError::SYNTAX)?;
                options.add_expiry(ExpiryOption::At(unit, time))?;
            }
        }
        Ok(options)
    }

    fn add_condition(&mut self, condition: Condition) -> Result<(), CommandError> {
        if self.condition.is_some_and(|known| known != condition) {
            return Err(CommandError::SYNTAX);
        }
        self.condition = Some(condition);
        Ok(())
    }

    fn add_expiry(&mut self, expiry: ExpiryOption<'a>) -> Result<(), CommandError> {
        let agrees = match (self.expiry, expiry) {
            (ExpiryOption::Unsaid, _) => true,
            (ExpiryOption::At(known, _), ExpiryOption::At(unit, _)) => known == unit,
            (known, new) => known == new,
        };
        if !agrees {
            return Err(CommandError::SYNTAX);
        }
        self.expiry = expiry;
        Ok(())
    }
}

fn unit(word: &[u8]) -> Option<Unit> {
    let units = [("EX", Unit::EX), ("PX", Unit::PX), ("EXAT", Unit::EXAT), ("PXAT", Unit::PXAT)];
    units.into_iter().find(|(name, _)| keyword_is(word, name)).map(|(_, unit)| unit)
}
