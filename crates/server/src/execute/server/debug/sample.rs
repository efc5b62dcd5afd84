//! A reply of each type, for tests of how a client reads them.

use firn_protocol::resp::{Protocol, Reply};

use crate::execute::call::Call;
use crate::failure::{Failure, Result};

/// The number with a fraction.
#[expect(clippy::approx_constant, reason = "Redis answers so many digits")]
const FRACTION: f64 = 3.141;

/// `DEBUG PROTOCOL type`: what Redis answers, to the letter.
pub(super) fn answer(call: &mut Call<'_>) -> Result<()> {
    let kind = call.argument(2).to_ascii_lowercase();
    let write: fn(&mut Reply<'_>) = match kind.as_slice() {
        b"string" => |reply| reply.bulk(b"Hello World"),
        b"integer" => |reply| reply.integer(12345),
        b"double" => |reply| reply.double(FRACTION),
        b"null" => |reply| reply.null(),
        b"array" => |reply| {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        },
        b"set" => |reply| {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        },
        b"map" => |reply| {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        },
        b"attrib" => |reply| {
            if reply.attributes(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        },
        b"push" if call.protocol == Protocol::Resp2 => {
            return Err(Failure::new("ERR RESP2 is not supported by this command"));
        }
        b"push" => |reply| {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        },
        b"verbatim" => |reply| reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => |reply| reply.boolean(true),
        b"false" => |reply| reply.boolean(false),
        b"bignum" => |reply| reply.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err(Failure::new(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    };
    call.reply(write);
    Ok(())
}
