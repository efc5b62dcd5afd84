//! From bytes to commands: the life of a connection.

use std::rc::Rc;

use firn_engine::Outcome;
use firn_protocol::resp::{Limits, ProtocolError};

use crate::client::Client;
use crate::execute::{FastPath, Request, Tools, discard, execute, prefetch, unsubscribe_all, unwatch};
use crate::pipeline::Pipeline;
use crate::server_thread::ServerThread;

/// Reads requests, executes them one after the other, and answers in their order, until the
/// connection ends.
pub(crate) async fn serve(thread: Rc<ServerThread>, client: Rc<Client>, tools: Rc<Tools>) {
    let mut pipeline = Pipeline::default();
    let mut fast_path = FastPath::default();
    while go_on(&thread, &client, &tools, &mut pipeline, &mut fast_path).await {}
    fast_path.finish(&thread, &client).await;
    fast_path.stop(&thread);
    // What it leaves may be much: others have their turns while it goes.
    Box::pin(async {
        unwatch(&thread, &client).await;
        unsubscribe_all(&thread, &client).await;
        discard(&thread, &client).await;
    })
    .await;
}

/// Executes one request, or receives more; `false` if the connection is over.
async fn go_on(
    thread: &Rc<ServerThread>,
    client: &Rc<Client>,
    tools: &Rc<Tools>,
    pipeline: &mut Pipeline,
    fast_path: &mut FastPath,
) -> bool {
    match fill(thread, client, pipeline) {
        Ok(true) => {
            if let Outcome::Pending(ticket) = prefetch(thread, client, tools, pipeline.waiting()) {
                fast_path.load(thread, client, ticket).await;
            }
        }
        Ok(false) => {}
        Err(error) => {
            fast_path.finish(thread, client).await;
            client.reply(|reply| reply.error(&format!("ERR {error}")));
            return false;
        }
    }
    let Some(whole) = pipeline.next() else {
        fast_path.finish(thread, client).await;
        fast_path.stop(thread);
        return receive(thread, client, pipeline).await;
    };
    client.description.request_bytes.set(whole.bytes());
    client.description.input_bytes.set(pipeline.bytes_behind(&whole));
    execute(Request { thread, client, tools, arguments: pipeline.arguments(&whole) }, fast_path).await;
    client.end_request();
    if client.outbox.output.borrow().len() > thread.shared.settings.unread_bytes_max {
        fast_path.finish(thread, client).await;
        fast_path.stop(thread);
        thread.drained(client).await;
    }
    !client.is_closing.get()
}

/// Makes requests out of what has come.
fn fill(thread: &ServerThread, client: &Client, pipeline: &mut Pipeline) -> Result<bool, ProtocolError> {
    let is_unknown = client.login.is_unknown(&thread.shared.users);
    let argument_bytes_max = thread.shared.parameters.argument_bytes_max();
    match is_unknown {
        true => pipeline.fill(&Limits::UNKNOWN_CLIENT, true),
        false => pipeline.fill(&Limits { argument_bytes_max, ..Limits::DEFAULT }, false),
    }
}

/// Waits for more; `false` if no more comes.
async fn receive(thread: &Rc<ServerThread>, client: &Rc<Client>, pipeline: &mut Pipeline) -> bool {
    let input = pipeline.input();
    if input.len() > thread.shared.parameters.request_bytes_max() {
        thread.end_over_limit(client);
        return false;
    }
    let description = &client.description;
    // While it waits no request runs.
    description.request_bytes.set(0);
    description.input_bytes.set(input.len());
    description.input_room_bytes.set(input.capacity() - input.len());
    if !thread.receive(client, input).await {
        return false;
    }
    description.input_room_bytes.set(input.capacity() - input.len());
    true
}
