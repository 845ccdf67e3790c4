//! The options of `SET`, `MSETEX` and `GETEX`, and times in arguments.

use engine::{CommandError, Ctx, keyword_is, parse_i64};
use keyspace::UnixMs;

use super::compare::Comparison;

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

    /// The unit of a time after `word`.
    pub(super) fn named(word: &[u8]) -> Option<Unit> {
        let units = [("EX", Unit::EX), ("PX", Unit::PX), ("EXAT", Unit::EXAT), ("PXAT", Unit::PXAT)];
        units.into_iter().find(|(name, _)| keyword_is(word, name)).map(|(_, unit)| unit)
    }

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

/// The condition under which `SET` or `MSETEX` has an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition<'a> {
    /// `NX`
    IfAbsent,
    /// `XX`
    IfPresent,
    /// `IFEQ`, `IFNE`, `IFDEQ` or `IFDNE`
    If(Comparison<'a>),
}

/// The options of `SET`, `MSETEX` or `GETEX`.
pub(super) struct Options<'a> {
    /// `NX`, `XX`, or a comparison with the old value.
    pub(super) condition: Option<Condition<'a>>,
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
    /// `MSETEX`
    MSetEx,
    /// `GETEX`
    GetEx,
}

impl<'a> Options<'a> {
    /// Reads options. An option may be repeated, and the last one counts; options that contradict each other are
    /// refused.
    #[inline(always)]
    pub(super) fn parse(args: &[&'a [u8]], of: For) -> Result<Options<'a>, CommandError> {
        let mut options = Options { condition: None, get: false, expiry: ExpiryOption::Unsaid };
        let sets = of != For::GetEx;
        let mut rest = args.iter();
        while let Some(&word) = rest.next() {
            if sets && keyword_is(word, "NX") {
                options.add_condition(Condition::IfAbsent)?;
            } else if sets && keyword_is(word, "XX") {
                options.add_condition(Condition::IfPresent)?;
            } else if of == For::Set && keyword_is(word, "GET") {
                options.get = true;
            } else if sets && keyword_is(word, "KEEPTTL") {
                options.add_expiry(ExpiryOption::Keep)?;
            } else if of == For::GetEx && keyword_is(word, "PERSIST") {
                options.add_expiry(ExpiryOption::Persist)?;
            } else if let Some(unit) = Unit::named(word) {
                let time = rest.next().ok_or(CommandError::SYNTAX)?;
                options.add_expiry(ExpiryOption::At(unit, time))?;
            } else {
                let operand = rest.next().filter(|_| of == For::Set).ok_or(CommandError::SYNTAX)?;
                let comparison = Comparison::parse(word, operand)?.ok_or(CommandError::SYNTAX)?;
                options.add_condition(Condition::If(comparison))?;
            }
        }
        Ok(options)
    }

    fn add_condition(&mut self, condition: Condition<'a>) -> Result<(), CommandError> {
        let repeats = |known| known == condition && !matches!(condition, Condition::If(_));
        if self.condition.is_some_and(|known| !repeats(known)) {
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
