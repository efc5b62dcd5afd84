//! S14: 50 subscribers that do not read and a message of 4 MB took 200 MB, below the limit of
//! unread bytes of each. Neighbours, in `pub_sub` for both ways to the network: messages by
//! patterns, of sharded channels, in both versions of the protocol. Also between small ones, and
//! while a reply is read.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk};
use super::beside::{in_a_process_of_its_own, memory_beside};

#[test]
fn s14_a_message_is_held_once_for_all_who_get_it() {
    in_a_process_of_its_own("shared_messages::s14_a_message_is_held_once_for_all_who_get_it", held_once);
}

fn held_once() {
    let served = Served::start(2);
    let mut subscribers: Vec<Client> = (0..50).map(|_| served.connect()).collect();
    for subscriber in &mut subscribers {
        subscriber.say("SUBSCRIBE news");
    }
    let publisher = &mut served.connect();
    let message = "x".repeat(4 << 20);
    let held = memory_beside(|| {
        for number in 0..2 {
            let message = format!("{number}{message}");
            assert_eq!(publisher.call(&["PUBLISH", "news", &message]), Value::Integer(50));
        }
        // Whatever a server thread has in its mailbox before it answers this was delivered.
        publisher.say("CLIENT LIST");
    });
    assert!(held < 100 << 20, "{} MiB are held for 50 subscribers", held >> 20);
    let sent_all = |client: &mut Client| {
        let Value::Bulk(text) = client.say("CLIENT LIST") else { panic!("a text") };
        String::from_utf8(text).expect("text").matches(" omem=0 ").count()
    };
    assert!(sent_all(publisher) < 25, "most have not been sent all of it");
    for subscriber in &mut subscribers {
        for number in 0..2 {
            let expected = vec![bulk("message"), bulk("news"), bulk(&format!("{number}{message}"))];
            assert!(subscriber.reply() == Some(Value::Array(expected)), "message {number} is whole");
        }
    }
    assert_eq!(sent_all(publisher), 51, "all was sent");
}
