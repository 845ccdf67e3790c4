//! The store that the settings name, as plain data, so that another process can open it, too.
//!
//! Paths are absolute: `CONFIG SET dir` changes the working directory, and the process that proves the death of this one
//! has another. The options have no secrets. Files with secrets are read when a store is opened, because they may change.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use config::{
    CLUSTER_ETCD, CLUSTER_ETCD_CA_FILE, CLUSTER_ETCD_CERT_FILE, CLUSTER_ETCD_KEY_FILE,
    CLUSTER_ETCD_PASSWORD_FILE, CLUSTER_ETCD_REVISIONS, CLUSTER_ETCD_USER, DIR, Settings,
};
use proactor::Entropy;
use serde::{Deserialize, Serialize};
use topology::etcd::{EtcdOptions, EtcdStore};
use topology::folder::FolderStore;
use topology::{ClusterName, History, Store};

use crate::error::Error;
use crate::founding::cluster_of;

/// The longest password.
const PASSWORD_BYTES_MAX: u64 = 4 * 1024;
/// The beginning of `cluster-etcd` if it names a folder.
const FOLDER: &str = "folder:";

/// See the head of this file. An empty path or text means: not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOptions {
    pub(crate) place: StorePlace,
    cluster: ClusterName,
    user: String,
    password_file: String,
    ca_file: String,
    cert_file: String,
    key_file: String,
    revisions_kept: Option<u64>,
}

/// Where the store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StorePlace {
    /// The URLs of etcd's members.
    Etcd(Vec<String>),
    /// A folder of this machine.
    Folder(PathBuf),
}

impl StoreOptions {
    /// The store that the settings name. Relative paths begin at `dir`.
    pub fn of(settings: &Settings) -> Result<StoreOptions, Error> {
        let etcd = settings.text(CLUSTER_ETCD);
        let place = match etcd.strip_prefix(FOLDER) {
            _ if etcd.is_empty() => return Err(Error::NoStore),
            Some(path) => StorePlace::Folder(path.into()),
            None => StorePlace::Etcd(etcd.split(',').map(str::to_owned).collect()),
        };
        let path = |id| absolute(settings, &settings.text(id));
        let cert_file = path(CLUSTER_ETCD_CERT_FILE)?;
        let key_file = match path(CLUSTER_ETCD_KEY_FILE)? {
            key if key.is_empty() => cert_file.clone(),
            _ if cert_file.is_empty() => {
                let why = "cluster-etcd-key-file is set without cluster-etcd-cert-file: set both, or none";
                return Err(Error::Settings(why.to_owned()));
            }
            key => key,
        };
        let (user, password_file) = (settings.text(CLUSTER_ETCD_USER), path(CLUSTER_ETCD_PASSWORD_FILE)?);
        if user.is_empty() != password_file.is_empty() {
            let why = "cluster-etcd-user and cluster-etcd-password-file belong together: set both, or none";
            return Err(Error::Settings(why.to_owned()));
        }
        Ok(StoreOptions {
            place,
            cluster: cluster_of(settings),
            user: user.as_ref().to_owned(),
            password_file,
            ca_file: path(CLUSTER_ETCD_CA_FILE)?,
            cert_file,
            key_file,
            revisions_kept: match settings.number(CLUSTER_ETCD_REVISIONS) {
                0 => None,
                kept => Some(kept as u64),
            },
        })
    }

    /// Opens the store. `history` is what this node remembers of it. Nothing is sent to etcd yet.
    pub fn open(&self, history: History) -> Result<Box<dyn Store>, Error> {
        let endpoints = match &self.place {
            StorePlace::Folder(path) => {
                return Ok(Box::new(FolderStore::open(path, &self.cluster, history)?));
            }
            StorePlace::Etcd(endpoints) => endpoints.clone(),
        };
        let mut entropy = Entropy::from_os()
            .map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source })?;
        let options = EtcdOptions {
            user: self.user.clone(),
            password: self.password()?,
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            revisions_kept: self.revisions_kept,
            ..EtcdOptions::new(endpoints, self.cluster.clone())
        };
        Ok(Box::new(EtcdStore::new(&options, history, &mut entropy)?))
    }

    /// The first line of the file with the password.
    fn password(&self) -> Result<String, Error> {
        if self.password_file.is_empty() {
            return Ok(String::new());
        }
        first_line(Path::new(&self.password_file)).map_err(|source| Error::SettingsFile {
            path: self.password_file.clone(),
            setting: "cluster-etcd-password-file",
            source,
        })
    }
}

/// For people.
impl fmt::Display for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            StorePlace::Etcd(endpoints) => write!(f, "{} ({})", self.cluster, endpoints.join(",")),
            StorePlace::Folder(path) => write!(f, "{} ({FOLDER}{})", self.cluster, path.display()),
        }
    }
}

/// Opens the store that the settings name. `history` is what this node remembers of it.
pub fn open_store(settings: &Settings, history: History) -> Result<Box<dyn Store>, Error> {
    StoreOptions::of(settings)?.open(history)
}

/// An absolute path; empty if `path` is.
fn absolute(settings: &Settings, path: &str) -> Result<String, Error> {
    if path.is_empty() {
        return Ok(String::new());
    }
    let path = Path::new(&*settings.text(DIR)).join(path);
    let found = std::path::absolute(&path)
        .map_err(|source| Error::Io { what: format!("cannot find {}", path.display()), source })?;
    found
        .into_os_string()
        .into_string()
        .map_err(|path| Error::Settings(format!("{} is not valid UTF-8: rename it", path.to_string_lossy())))
}

fn first_line(path: &Path) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(File::open(path)?.take(PASSWORD_BYTES_MAX + 1)).read_line(&mut line)?;
    let line = line.trim_end_matches(['\n', '\r']);
    match line.len() as u64 {
        0 => Err(io::Error::other("its first line is empty")),
        1..=PASSWORD_BYTES_MAX => Ok(line.to_owned()),
        _ => Err(io::Error::other(format!("its first line has more than {PASSWORD_BYTES_MAX} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use config::{Invocation, TABLE};
    use scratch::Scratch;

    use super::*;

    pub(crate) fn settings(line: &str) -> Settings {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        let Ok(Invocation::Serve(arguments)) = Invocation::parse(&TABLE, &args) else { panic!("{line}") };
        let (settings, mut found) = Settings::read(&arguments).expect(line);
        found.check().expect(line);
        settings
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        let error = open_store(&settings(line), History::default()).err().expect(line);
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }

    #[test]
    fn the_settings_name_a_store() {
        let scratch = Scratch::new("store");
        scratch.file("password", "pass word\r\nsecond\n");
        let folder = scratch.path("topology");
        let mut store =
            open_store(&settings(&format!("--cluster-etcd folder:{folder}")), History::default()).unwrap();
        assert_eq!(store.read().unwrap().document(), None);
        let line = format!(
            "--cluster-etcd http://a:1,http://b --cluster-name shop --cluster-etcd-user u --cluster-etcd-password-file \
             password --dir {} --cluster-etcd-revisions 0",
            scratch.path("")
        );
        let options = StoreOptions::of(&settings(&line)).unwrap();
        assert_eq!(options.place, StorePlace::Etcd(vec!["http://a:1".to_owned(), "http://b".to_owned()]));
        assert_eq!((options.password().unwrap().as_str(), options.revisions_kept), ("pass word", None));
        assert_eq!(options.to_string(), "shop (http://a:1,http://b)");
        assert!(options.open(History::default()).is_ok(), "nothing is asked yet");
    }

    #[test]
    fn errors_say_what_to_do() {
        let scratch = Scratch::new("store");
        let (empty, long) = (scratch.file("empty", "\n"), scratch.file("long", &"x".repeat(5000)));
        check_error("", "set it to the URLs of etcd's members");
        check_error("--cluster-etcd http://a:x", "is no URL like");
        check_error("--cluster-etcd https://a", "which need cluster-etcd-ca-file");
        check_error(
            "--cluster-etcd https://a --cluster-etcd-ca-file /nonexistent/ca",
            "cluster-etcd-ca-file",
        );
        check_error("--cluster-etcd http://a --cluster-etcd-key-file /k", "set both, or none");
        check_error("--cluster-etcd http://a --cluster-etcd-user u", "set both, or none");
        let with_file = |path: &str| {
            format!("--cluster-etcd http://a --cluster-etcd-user u --cluster-etcd-password-file {path}")
        };
        check_error(
            &with_file("/nonexistent/p"),
            "cannot read /nonexistent/p, which is cluster-etcd-password-file: No such file",
        );
        check_error(&with_file(&empty), "its first line is empty");
        check_error(&with_file(&long), "more than 4096 bytes");
        check_error("--cluster-etcd folder:/dev/null/x", "/dev/null/x/darter: ");
    }
}
