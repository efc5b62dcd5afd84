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
    let settings = &worker.shared.settings;
    let unread_bytes_max = settings.unread_bytes_max;
    loop {
        let is_unknown = client.login.is_unknown(&worker.shared.store.users);
        let limits = if is_unknown { &Limits::UNKNOWN_CLIENT } else { &limits(&worker) };
        match parser.parse(input.get_mut(at..).unwrap_or_default(), &mut spans, limits) {
            Ok(Parsed::Request(bytes)) => {
                let arguments = Arguments::new(input.get(at..at + bytes).unwrap_or_default(), &spans);
                client.description.request_bytes.set(bytes);
                client.description.input_bytes.set(input.len() - at - bytes);
                execute(Request { worker: &worker, client: &client, arguments }, &mut run).await;
                client.end_request();
                at += bytes;
                spans.clear();
                if client.output.borrow().len() > unread_bytes_max {
                    run.finish(&worker, &client).await;
                    run.lap.stop(&worker);
                    worker.drained(&client).await;
                }
                if client.is_closing.get() {
                    break;
                }
            }
            Ok(Parsed::Incomplete(_)) => {
                run.finish(&worker, &client).await;
                run.lap.stop(&worker);
                input.drain(..at);
                at = 0;
                if input.is_empty() {
                    input.shrink_to(INPUT_BYTES_KEPT);
                }
                if input.len() > worker.shared.parameters.request_bytes_max()
                    || !worker.receive(&client, &mut input).await
                {
                    return;
                }
                client.description.input_room_bytes.set(input.capacity() - input.len());
            }
            Err(error) => {
                run.finish(&worker, &client).await;
                client.reply(|reply| reply.error(&format!("ERR {error}")));
                break;
            }
        }
    }
    run.finish(&worker, &client).await;
    run.lap.stop(&worker);
}

/// How large a request may be, by now.
fn limits(worker: &Worker) -> Limits {
    Limits { argument_bytes_max: worker.shared.parameters.argument_bytes_max(), ..Limits::DEFAULT }
}
