//! The names and numbers in a document. Each has a type of its own, since most of them must not mix.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use proactor::Entropy;
use serde::{Deserialize, Serialize};

/// The longest name of a node, a group, a move or a cluster.
pub const NAME_BYTES_MAX: usize = 64;

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.' (ASCII), and begins with a letter or digit"
)]
pub struct NotAName;

/// Whether `text` may be a name. It is then also a safe name of a file and a part of a key.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Declares a kind of name.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NotAName;

            fn from_str(text: &str) -> Result<$name, NotAName> {
                if is_name(text) { Ok($name(text.into())) } else { Err(NotAName) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAName;

            fn try_from(text: String) -> Result<$name, NotAName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A node: a data folder that has joined. It keeps its id over restarts.
    NodeId
}
name! {
    /// A group: a primary and its replicas.
    GroupId
}
name! {
    /// A move of slots from one group to another.
    MoveId
}
name! {
    /// A cluster: several may share one store.
    ClusterName
}

/// A random number that a process draws when it starts. In JSON it has 16 hexadecimal digits, because tools that people
/// use on JSON round numbers of this size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Life(pub u64);

impl Life {
    /// Draws the life of this process.
    pub fn draw(entropy: &mut Entropy) -> std::io::Result<Life> {
        let mut bytes = [0; 8];
        entropy.secret(&mut bytes)?;
        Ok(Life(u64::from_be_bytes(bytes)))
    }
}

/// Why a text is no life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a life has 16 lowercase hexadecimal digits")]
pub struct NotALife;

impl FromStr for Life {
    type Err = NotALife;

    fn from_str(text: &str) -> Result<Life, NotALife> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(NotALife);
        }
        u64::from_str_radix(text, 16).map(Life).map_err(|_| NotALife)
    }
}

impl TryFrom<String> for Life {
    type Error = NotALife;

    fn try_from(text: String) -> Result<Life, NotALife> {
        text.parse()
    }
}

impl From<Life> for String {
    fn from(life: Life) -> String {
        life.to_string()
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One process of a node. In JSON: `["a", "00000000deadbeef"]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(NodeId, Life)", into = "(NodeId, Life)")]
pub struct Instance {
    /// The node.
    pub node: NodeId,
    /// The life of the process.
    pub life: Life,
}

impl From<(NodeId, Life)> for Instance {
    fn from((node, life): (NodeId, Life)) -> Instance {
        Instance { node, life }
    }
}

impl From<Instance> for (NodeId, Life) {
    fn from(instance: Instance) -> (NodeId, Life) {
        (instance.node, instance.life)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (life {})", self.node, self.life)
    }
}

/// Counts the leaders of a group. The first one is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

impl Term {
    /// The first term of a group.
    pub const FIRST: Term = Term(1);
    /// The greatest term that a document may have: the greatest number that tools for JSON do not round.
    pub const MAX: Term = Term((1 << 53) - 1);

    /// The term after this one.
    pub fn next(self) -> Term {
        assert!(self < Term::MAX, "terms do not run out");
        Term(self.0 + 1)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the changes of a store. That of a document is the change that wrote it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// That of a document that does not exist.
    pub const NONE: Revision = Revision(0);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_paths_and_keys() {
        for good in ["a", "node-1", "10.0.0.1", "A_b"] {
            assert_eq!(good.parse::<NodeId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in ["", ".", "..", "-a", "a/b", "a b", "a\0", "ä", &long] {
            assert_eq!(bad.parse::<NodeId>(), Err(NotAName), "{bad}");
        }
    }

    #[test]
    fn a_life_has_one_spelling() {
        let life = Life(0xdead_beef);
        assert_eq!(life.to_string(), "00000000deadbeef");
        assert_eq!("00000000deadbeef".parse(), Ok(life));
        for bad in ["", "deadbeef", "00000000DEADBEEF", "+0000000deadbeef", "000000000deadbeef"] {
            assert_eq!(bad.parse::<Life>(), Err(NotALife), "{bad}");
        }
    }
}
