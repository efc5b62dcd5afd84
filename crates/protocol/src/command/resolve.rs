//! From the arguments of a request to the command they name.

use super::{Command, find, find_subcommand};

/// Why a request names no command that could run.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// No command has this name.
    UnknownCommand,
    /// The command has no such subcommand.
    UnknownSubcommand(&'static Command),
    /// The command (or subcommand) does not take so many arguments.
    ArgumentCount(&'static Command),
}

/// The command or subcommand that `arguments` name, their number checked.
///
/// Whether it is offered is not looked at. Allocates nothing.
///
/// # Errors
/// [`Refusal`]; an empty request is an unknown command.
pub fn resolve<A: AsRef<[u8]>>(arguments: &[A]) -> Result<&'static Command, Refusal> {
    let name = arguments.first().ok_or(Refusal::UnknownCommand)?;
    let mut command = find(name.as_ref()).ok_or(Refusal::UnknownCommand)?;
    if !command.subcommands().is_empty()
        && let Some(name) = arguments.get(1)
    {
        command = find_subcommand(command, name.as_ref()).ok_or(Refusal::UnknownSubcommand(command))?;
    }
    if command.accepts(arguments.len()) { Ok(command) } else { Err(Refusal::ArgumentCount(command)) }
}

/// Most bytes of what the client sent that are repeated to it.
const ECHO_BYTES_MAX: usize = 128;

impl Refusal {
    /// The error line clients expect, with its code; at most some hundred bytes, on one line.
    pub fn text<A: AsRef<[u8]>>(self, arguments: &[A]) -> Vec<u8> {
        let mut text = b"ERR ".to_vec();
        let argument = |index: usize| arguments.get(index).map(AsRef::as_ref).unwrap_or_default();
        match self {
            Refusal::UnknownCommand => {
                text.extend_from_slice(b"unknown command '");
                echo(&mut text, argument(0), ECHO_BYTES_MAX);
                text.extend_from_slice(b"', with args beginning with: ");
                let end = text.len() + ECHO_BYTES_MAX;
                for argument in arguments.iter().skip(1) {
                    if text.len() >= end {
                        break;
                    }
                    let room = end - text.len();
                    text.push(b'\'');
                    echo(&mut text, argument.as_ref(), room);
                    text.extend_from_slice(b"' ");
                }
            }
            Refusal::UnknownSubcommand(command) => {
                text.extend_from_slice(b"unknown subcommand '");
                echo(&mut text, argument(1), ECHO_BYTES_MAX);
                text.extend_from_slice(format!("'. Try {} HELP.", command.name.to_uppercase()).as_bytes());
            }
            Refusal::ArgumentCount(command) => {
                text.extend_from_slice(
                    format!("wrong number of arguments for '{command}' command").as_bytes(),
                );
            }
        }
        text
    }
}

/// Appends at most `bytes_max` of what a client sent, up to a zero byte; ends of lines become
/// blanks.
fn echo(text: &mut Vec<u8>, sent: &[u8], bytes_max: usize) {
    let shown = sent.iter().take(bytes_max).take_while(|byte| **byte != 0);
    text.extend(shown.map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
}
