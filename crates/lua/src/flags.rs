//! The flags that a script or function declares about itself.

/// Flags of a script or function. The host has to act on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// There is a `#!lua` line. Otherwise each command is checked separately, as before Redis 7.
    pub is_declared: bool,
    /// The script does not write.
    pub no_writes: bool,
    /// The script may run when memory is short.
    pub allow_oom: bool,
    /// The script may run on a replica that has lost its primary.
    pub allow_stale: bool,
    /// The script must not run in a cluster.
    pub no_cluster: bool,
    /// The script's keys may be in several slots.
    pub allow_cross_slot_keys: bool,
}

impl Flags {
    /// The names of the flags that are set, in Redis' order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("no-writes", self.no_writes),
            ("allow-oom", self.allow_oom),
            ("allow-stale", self.allow_stale),
            ("no-cluster", self.no_cluster),
            ("allow-cross-slot-keys", self.allow_cross_slot_keys),
        ];
        all.into_iter().filter_map(|(name, is_set)| is_set.then_some(name))
    }

    pub(crate) fn named(&mut self, name: &[u8]) -> Option<&mut bool> {
        match name {
            b"no-writes" => Some(&mut self.no_writes),
            b"allow-oom" => Some(&mut self.allow_oom),
            b"allow-stale" => Some(&mut self.allow_stale),
            b"no-cluster" => Some(&mut self.no_cluster),
            b"allow-cross-slot-keys" => Some(&mut self.allow_cross_slot_keys),
            _ => None,
        }
    }
}
