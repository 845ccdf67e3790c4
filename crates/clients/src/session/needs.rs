//! Says which shards a call of a client needs, and what it may do. For EXEC, both follow from the queued commands; for
//! scripts, from what is known of them.

use config::Settings;
use engine::{Command, CommandId, Needs, OwnedArgs, Route, Shards, Table};
use scripting::{Demands, States};

use crate::session::{Multi, Session};

/// What calls are judged by: the commands, the shards, and the settings.
#[derive(Clone, Copy)]
pub struct Judge<'s> {
    /// The commands.
    pub table: &'s Table,
    /// The shards.
    pub shards: &'s Shards,
    /// The settings.
    pub settings: &'s Settings,
}

impl Judge<'_> {
    /// The shards that a call needs.
    pub fn needs(&self, session: &Session, lua: &mut States, command: &Command, args: &[&[u8]]) -> Needs {
        match command.lone_key(args) {
            Some(index) => Needs::One(self.shards.placement().shard(args[index])),
            None => self.needs_of_no_lone_key(session, lua, command, args),
        }
    }

    /// The shards that a call needs if it does not have just one key.
    #[inline]
    pub fn needs_of_no_lone_key(
        &self,
        session: &Session,
        lua: &mut States,
        command: &Command,
        args: &[&[u8]],
    ) -> Needs {
        let placement = self.shards.placement();
        let of_keys = || Needs::of_no_lone_key(command, args, placement);
        match command.entry.route {
            Route::Queued => self.queued_needs(session, lua),
            Route::Chance | Route::Walk => Needs::Nothing,
            Route::KeysAndBeside => Needs::of_keys(command, args, placement),
            Route::Channels(from) if args.len() <= from => self.subscribed_needs(session),
            Route::Script(callee) => {
                let trusted_after = self.settings.script_trusted_after();
                of_keys().and(lua.needs(args, callee, trusted_after, self.shards))
            }
            _ => of_keys(),
        }
    }

    /// The shards of all channels to which a client is subscribed.
    fn subscribed_needs(&self, session: &Session) -> Needs {
        if session.tracking.as_ref().is_some_and(|tracking| tracking.broadcasts) {
            // Its prefixes are known to all shards.
            return Needs::All;
        }
        let (channels, placement) = (session.subscriptions.all_channels(), self.shards.placement());
        Needs::several(channels.map(|(_, channel)| placement.channel(channel)).collect())
    }

    /// The shards that EXEC of a client needs.
    fn queued_needs(&self, session: &Session, lua: &mut States) -> Needs {
        let placement = self.shards.placement();
        let watched = session.watching.keys.iter().map(|(_, key)| placement.shard(key)).collect();
        let mut needs = Needs::several(watched);
        for (id, args) in session.multi.iter().flat_map(|multi| &multi.queued) {
            needs = needs.and(self.needs_of_queued(session, lua, *id, args));
        }
        needs
    }

    fn needs_of_queued(&self, session: &Session, lua: &mut States, id: CommandId, args: &OwnedArgs) -> Needs {
        let (command, args, placement) = (self.table.get(id), args.slices(), self.shards.placement());
        match command.entry.route {
            Route::Channels(from) if args.len() <= from => self.subscribed_needs(session),
            Route::Script(callee) => {
                let trusted_after = self.settings.script_trusted_after();
                let touched = lua.needs(&args, callee, trusted_after, self.shards);
                Needs::of(command, &args, placement).and(touched)
            }
            _ => Needs::of(command, &args, placement),
        }
    }

    /// The number of queued commands up to the last one that needs a shard, or may turn out to need one.
    pub fn behind_shards(&self, session: &Session, lua: &mut States, multi: &Multi) -> usize {
        let may_need = |(id, args): &(CommandId, OwnedArgs)| {
            matches!(self.table.get(*id).entry.route, Route::Script(_))
                || self.needs_of_queued(session, lua, *id, args) != Needs::Nothing
        };
        multi.queued.iter().rposition(may_need).map_or(0, |index| index + 1)
    }

    /// Whether one of these shards is held.
    pub fn is_held(&self, needs: &Needs) -> bool {
        let held = |id: &shard::ShardId| self.shards.is_held(*id);
        match needs {
            Needs::Nothing => false,
            Needs::One(id) => held(id),
            Needs::Several(ids) => ids.iter().any(held),
            Needs::All => self.shards.ids().any(|id| held(&id)),
        }
    }

    /// What a call may do.
    pub fn demands(&self, session: &Session, lua: &mut States, command: &Command, args: &[&[u8]]) -> Demands {
        let mut all = Demands::of(lua, command, args);
        let queued = session.multi.as_ref().filter(|_| command.entry.route == Route::Queued);
        for (id, args) in queued.iter().flat_map(|multi| &multi.queued) {
            all = all.and(Demands::of(lua, self.table.get(*id), &args.slices()));
        }
        all
    }
}
