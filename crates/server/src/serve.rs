//! From bytes to commands: the life of a connection.

use std::rc::Rc;

use firn_protocol::resp::{Arguments, Limits, Parsed, Parser, Span};

use crate::client::Client;
use crate::execute::{Request, Run, execute};
use crate::worker::Worker;

/// Memory that an input without a request keeps.
const INPUT_BYTES_KEPT: usize = 64 << 10;

/// Reads requests, executes them one after the other, and answers in their order, until the connection ends.
pub(crate) async fn serve(worker: Rc<Worker>, client: Rc<Client>) {
    let mut parser = Parser::new();
    let mut spans: Vec<Span> = Vec::new();
    let mut input: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut run = Run::default();
    let unread_bytes_max = worker.shared.settings.unread_bytes_max;
    loop {
        match parser.parse(input.get_mut(at..).unwrap_or_default(), &mut spans, &Limits::DEFAULT) {
            Ok(Parsed::Request(bytes)) => {
                let arguments = Arguments::new(input.get(at..at + bytes).unwrap_or_default(), &spans);
                execute(Request { worker: &worker, client: &client, arguments }, &mut run).await;
                at += bytes;
                spans.clear();
                if client.output.borrow().len() > unread_bytes_max {
                    run.finish(&worker, &client).await;
                    worker.drained(&client).await;
                }
                if client.is_closing.get() {
                    break;
                }
            }
            Ok(Parsed::Incomplete(_)) => {
                run.finish(&worker, &client).await;
                input.drain(..at);
                at = 0;
                if input.is_empty() {
                    input.shrink_to(INPUT_BYTES_KEPT);
                }
                if input.len() > worker.shared.settings.request_bytes_max
                    || !worker.receive(&client, &mut input).await
                {
                    return;
                }
            }
            Err(error) => {
                run.finish(&worker, &client).await;
                client.reply(|reply| reply.error(&format!("ERR {error}")));
                break;
            }
        }
    }
    run.finish(&worker, &client).await;
}
