//! Replication, of which there is none: what is asked of it is answered truthfully.

use firn_protocol::number::parse_integer;

use crate::execute::call::Call;
use crate::failure::{Failure, Result};

/// `ROLE`: a master without replicas.
pub(super) fn role(call: &mut Call<'_>) -> Result<()> {
    call.reply(|reply| {
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
    });
    Ok(())
}

/// `REPLICAOF NO ONE`, `REPLICAOF host port`: the first changes nothing, the second is refused.
pub(super) fn replica_of(call: &mut Call<'_>) -> Result<()> {
    if !(call.is_word(1, "no") && call.is_word(2, "one")) {
        let port = parse_integer(call.argument(2)).filter(|port| (0..=65535).contains(port));
        port.ok_or(Failure::new("ERR Invalid master port"))?;
        return Err(Failure::new("ERR this server cannot be a replica: there is no replication yet"));
    }
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `WAIT numreplicas timeout`: there are no replicas, so the command does not wait.
pub(in crate::execute) fn wait(call: &mut Call<'_>) -> Result<()> {
    call.integer(1)?;
    let timeout_ms = parse_integer(call.argument(2))
        .ok_or(Failure::new("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(Failure::new("ERR timeout is negative"));
    }
    call.reply(|reply| reply.integer(0));
    Ok(())
}
