//! Users in files: lines `user <name> <rules>` of the configuration file, or a file of their own (`aclfile`).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use acl::{UserLine, Users};
use command::{CommandError, Table};
use settings::{ACLFILE, Settings};

use crate::error::Error;
use crate::shared::Shared;
use crate::users::{default_users, grammar};

/// Bytes of an ACL file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The users that the configuration declares, or those of the file that it names.
pub(crate) fn users_at_start(table: &Table, settings: &Settings, lines: &[UserLine]) -> Result<Users, Error> {
    let (users, grammar) = (default_users(settings, table), grammar(settings, table));
    let path = settings.text(ACLFILE);
    if !path.is_empty() && !lines.is_empty() {
        return Err(Error::UsersTwice);
    }
    let declared = users.declare(grammar, lines);
    for account in lines.iter().filter_map(|line| users.find(line.name())) {
        if !account.user.is_on {
            tracing::info!("the user '{}' is disabled", String::from_utf8_lossy(&account.user.name));
        }
    }
    declared?;
    if !path.is_empty() {
        let loaded = read(&path).and_then(|text| users.load(grammar, &path, &text));
        loaded.map_err(|errors| Error::Users(String::from_utf8_lossy(&errors).into_owned()))?;
    }
    Ok(users)
}

/// The text of the ACL file at `path`; or why there is none.
fn read(path: &str) -> Result<Vec<u8>, Vec<u8>> {
    let mut text = Vec::new();
    let bytes = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    let why = match bytes {
        Ok(bytes) if bytes as u64 <= FILE_BYTES_MAX => return Ok(text),
        Ok(_) => format!("it is longer than {FILE_BYTES_MAX} bytes"),
        Err(error) => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    };
    Err(format!("Error loading ACLs, opening file '{path}': {why}").into_bytes())
}

impl Shared {
    /// The ACL file.
    fn acl_file(&self) -> Result<Arc<str>, CommandError> {
        let path = self.settings.text(ACLFILE);
        if path.is_empty() {
            return Err(CommandError::fixed(
                "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                 ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
                 set) in order to store users in the Redis configuration.",
            ));
        }
        Ok(path)
    }

    /// `ACL LOAD`: the users become those of the ACL file, or stay as they are.
    pub(crate) fn load_users(&self) -> Result<(), CommandError> {
        let path = self.acl_file()?;
        let grammar = grammar(&self.settings, &self.table);
        let loaded = read(&path).and_then(|text| self.users.load(grammar, &path, &text));
        loaded.map_err(|errors| CommandError::quoting("ERR ", &errors, ""))
    }

    /// `ACL SAVE`: writes all users to the ACL file, which is replaced as a whole.
    pub(crate) fn save_users(&self) -> Result<(), CommandError> {
        let path = self.acl_file()?;
        let saved = self.machine.disk.replace(Path::new(&*path), &self.users.file_text());
        saved.map_err(|error| {
            tracing::warn!("ACL SAVE failed: {error}");
            CommandError::fixed(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
            )
        })
    }

    /// The users as the configuration file declares them; none if they have a file of their own, or if there is only the
    /// one that is made of the other settings.
    pub(crate) fn user_lines(&self) -> Vec<Vec<u8>> {
        if !self.settings.text(ACLFILE).is_empty() {
            return Vec::new();
        }
        let password = self.settings.password();
        let grammar = grammar(&self.settings, &self.table);
        self.users.declarations(grammar, password.as_deref().map(str::as_bytes))
    }
}
