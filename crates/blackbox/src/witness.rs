//! A well-behaved client among hostile ones.

use resp::Value;

use crate::client::{Client, check, eventually};
use crate::server::Server;

/// Number of elements in its list.
const ELEMENTS: usize = 50;

/// A client that must not be affected by others: it is answered in time, and what it stored stays.
#[derive(Debug)]
pub struct Witness {
    client: Client,
    count: i64,
}

impl Witness {
    /// A witness with some data.
    #[track_caller]
    pub fn new(server: &Server) -> Witness {
        let mut client = server.client();
        for number in 0..ELEMENTS {
            check(&mut client, &format!("SET witness:{number} {number}"), "OK");
            check(&mut client, &format!("RPUSH witness {number}"), &format!("(integer) {}", number + 1));
        }
        Witness { client, count: 0 }
    }

    /// Checks that it is served, and that nothing it stored is lost.
    #[track_caller]
    pub fn look(&mut self) {
        self.count += 1;
        assert_eq!(self.client.call("INCR witness:count"), Value::Int(self.count));
        let elements: Vec<Value> =
            (0..ELEMENTS).map(|number| Value::Bulk(number.to_string().into_bytes())).collect();
        assert_eq!(self.client.call("LRANGE witness 0 -1"), Value::Array(elements));
        for number in 0..ELEMENTS {
            check(&mut self.client, &format!("GET witness:{number}"), &format!("\"{number}\""));
        }
    }

    /// Checks that no other client is connected, waits, watches or subscribes, and that the only keys are its
    /// own.
    #[track_caller]
    pub fn alone(&mut self) {
        self.look();
        for (field, value) in [
            ("connected_clients", "1"),
            ("blocked_clients", "0"),
            ("total_blocking_keys", "0"),
            ("total_watched_keys", "0"),
        ] {
            eventually(&format!("{field}:{value}"), || self.client.info("clients", field) == value);
        }
        check(&mut self.client, "PUBSUB NUMPAT", "(integer) 0");
        check(&mut self.client, "PUBSUB CHANNELS", "(empty array)");
        check(&mut self.client, "DBSIZE", &format!("(integer) {}", ELEMENTS + 2));
    }

    /// Its connection.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }
}
