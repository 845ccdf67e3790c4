//! Tests of the commands without a server: a few clients on one thread, each with its subscriptions.

use engine::{Client, CommandResult, Host, Local, OwnCall, Rule, TxMessage, function_of};
use resp::{Output, Proto};

use crate::{Directory, ENTRIES, Entry, Subscribing, Subscriptions};

/// The state that the thread keeps for the client whose command runs, and for all clients.
#[derive(Default)]
struct Thread {
    subscriptions: Subscriptions,
    directory: Directory,
}

impl Host for Thread {
    fn run_own(&mut self, mut call: OwnCall<'_, '_>) -> CommandResult {
        if call.command.entry.is_under(Rule::FollowsMessages) {
            call.reply.simple("delivered");
        }
        let Thread { subscriptions, directory } = self;
        let mut host = Subscribing { subscriptions: Some(subscriptions), directory, tells_replicas: false };
        function_of(ENTRIES, call.command)(&mut call.on(&mut host))
    }
}

struct Clients {
    store: Local,
    thread: Thread,
    others: Vec<Subscriptions>,
}

impl Clients {
    fn new(count: usize) -> Clients {
        let entries: Vec<engine::Entry> = ENTRIES.iter().map(Entry::of_host).collect();
        let others = (0..count).map(|_| Subscriptions::default()).collect();
        Clients { store: Local::new(&[Vec::leak(entries)]), thread: Thread::default(), others }
    }

    /// The reply to a line from one client, on one line.
    fn reply(&mut self, index: usize, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut client = Client::internal(0, Proto::Resp2);
        client.connection = index as u64;
        client.deny_blocking = false;
        let mut out = Output::new();
        std::mem::swap(&mut self.thread.subscriptions, &mut self.others[index]);
        self.store.run(client, &args, &mut self.thread, &mut out);
        std::mem::swap(&mut self.thread.subscriptions, &mut self.others[index]);
        String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned()
    }

    #[track_caller]
    fn check(&mut self, index: usize, line: &str, expected: &str) {
        assert_eq!(self.reply(index, line), expected, "{line}");
    }

    /// The receivers of the last message, with the pattern that matched.
    fn receivers(&mut self) -> Vec<(u64, Option<String>)> {
        let Some(TxMessage::Published(published)) = self.store.outbox.pop() else { return Vec::new() };
        let by = |pattern: &[u8]| String::from_utf8_lossy(pattern).into_owned();
        let shown = published.to.iter().map(|to| (to.subscriber.connection, to.pattern.as_deref().map(by)));
        shown.collect()
    }
}

#[test]
fn a_message_goes_to_subscribers_first_and_then_by_patterns() {
    let mut clients = Clients::new(3);
    clients.check(0, "PSUBSCRIBE n*", "*3 $10 psubscribe $2 n* :1");
    clients.check(1, "SUBSCRIBE news", "*3 $9 subscribe $4 news :1");
    clients.check(1, "SUBSCRIBE news more", "*3 $9 subscribe $4 news :1 *3 $9 subscribe $4 more :2");
    clients.check(2, "PUBLISH news x", ":2");
    assert_eq!(clients.receivers(), [(1, None), (0, Some("n*".to_owned()))]);
    clients.check(2, "PUBLISH other x", ":0");
    assert_eq!(clients.receivers(), []);
}

#[test]
fn shard_channels_are_others() {
    let mut clients = Clients::new(2);
    clients.check(0, "SSUBSCRIBE a", "*3 $10 ssubscribe $1 a :1");
    clients.check(0, "PSUBSCRIBE *", "*3 $10 psubscribe $1 * :1");
    clients.check(1, "SPUBLISH a x", ":1");
    assert_eq!(clients.receivers(), [(0, None)]);
    clients.check(1, "PUBLISH a x", ":1");
    assert_eq!(clients.receivers(), [(0, Some("*".to_owned()))]);
    clients.check(1, "PUBSUB SHARDCHANNELS", "*1 $1 a");
    clients.check(1, "PUBSUB CHANNELS", "*0");
    clients.check(1, "PUBSUB SHARDNUMSUB a b", "*4 $1 a :1 $1 b :0");
}

#[test]
fn who_leaves_gets_what_is_here_first() {
    let mut clients = Clients::new(1);
    clients.check(0, "UNSUBSCRIBE", "+delivered *3 $11 unsubscribe $-1 :0");
    clients.reply(0, "SUBSCRIBE a b");
    clients.check(0, "UNSUBSCRIBE a", "+delivered *3 $11 unsubscribe $1 a :1");
    clients.check(0, "PUNSUBSCRIBE none", "+delivered *3 $12 punsubscribe $4 none :1");
    clients.check(0, "PUBSUB NUMPAT", ":0");
    clients.check(0, "PUBSUB CHANNELS a", "*0");
    clients.check(
        0,
        "PUBSUB CHANNELS a b",
        "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
    );
}
