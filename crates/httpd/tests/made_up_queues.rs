//! Queues as HTTP shows them: whatever their names, and however many there are.

mod made_up;

use made_up::{MadeUp, get, row};
use serde_json::Value;

#[test]
fn names_of_any_bytes_are_shown() {
    let hostile = b"a\"\\\n\xff{}</script>".as_slice();
    let port = MadeUp::serve(vec![row(hostile, 3), row(b"queue:a", 5)]);
    let metrics = get(port, "/metrics");
    let label =
        r#"darter_queue_depth{queue="a\"\\\n\\xff{}</script>",db="0",system="sidekiq",state="waiting"} 3"#;
    assert!(metrics.lines().any(|line| line == label), "{metrics}");
    let table: Value = serde_json::from_str(&get(port, "/queues.json")).unwrap();
    assert_eq!(table["queues"][0]["name"], "a\"\\\n\u{fffd}{}</script>");
    assert_eq!(table["queues"][0]["key"], "YSJcCv97fTwvc2NyaXB0Pg==");
    assert_eq!(table["total"]["depth"], 8);
    let one: Value =
        serde_json::from_str(&get(port, "/queues.json?name=a%22%5C%0A%FF%7B%7D%3C/script%3E")).unwrap();
    assert_eq!((&one["total"]["queues"], &one["queues"][0]["depth"]), (&1.into(), &3.into()));
}

#[test]
fn too_many_queues_are_summed_up_and_counted() {
    let rows = (0..1500).map(|number| row(format!("queue:{number}").as_bytes(), 1000 + number)).collect();
    let port = MadeUp::serve(rows);
    let metrics = get(port, "/metrics");
    let labelled =
        metrics.lines().filter(|line| line.starts_with("darter_queue_depth{queue=\"queue:")).count();
    assert_eq!(labelled, 200);
    for line in ["darter_queues 1500", "darter_queues_other 1300"] {
        assert!(metrics.lines().any(|known| known == line), "{line}");
    }
    let shown: Value = serde_json::from_str(&get(port, "/api/queues")).unwrap();
    assert_eq!((shown["queues"].as_array().unwrap().len(), &shown["other"]), (1000, &500.into()));
    assert!(shown["queues"][0]["spark"].is_array(), "the console has them");
    let plain: Value = serde_json::from_str(&get(port, "/queues.json")).unwrap();
    assert!(plain["queues"][0].get("spark").is_none(), "an autoscaler has not");
}
