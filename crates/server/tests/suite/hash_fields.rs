//! Fields of hashes that expire without being read.

use blackbox::{check, eventually, on_each_server};

#[test]
fn expired_fields_are_removed_in_the_background() {
    on_each_server(|server| {
        let client = &mut server.client();
        for index in 0..100 {
            let pairs: String = (0..20).map(|field| format!(" f{field} v")).collect();
            client.call(&format!("HSET h{index}{pairs}"));
        }
        for index in 0..100 {
            let fields: String = (0..15).map(|field| format!(" f{field}")).collect();
            client.call(&format!("HPEXPIRE h{index} 1 FIELDS 15{fields}"));
        }
        eventually("the fields are removed", || client.info("stats", "expired_subkeys") == "1500");
        check(client, "HLEN h7", "(integer) 5");
        check(client, "DBSIZE", "(integer) 100");
        for index in 0..100 {
            client.call(&format!("HPEXPIRE h{index} 1 FIELDS 5 f15 f16 f17 f18 f19"));
        }
        eventually("the hashes are gone", || client.show("DBSIZE") == "(integer) 0");
    });
}
