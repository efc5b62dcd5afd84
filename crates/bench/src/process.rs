//! Other processes of this program: brought up, looked at, and gone when the process that started
//! them is.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firn::storage::{Clock, SystemClock};
use firn_engine::{Error, ErrorKind, Result};

use crate::measure::ProcessCpu;

/// The option by which a process ends when its standard input does; its other end is this process's
/// alone.
const ENDS_WITH_US: &str = "--until-stdin-closes";

/// How long a process may take until it says its first line.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// How long one may take to end before it is killed.
const END_MAX: Duration = Duration::from_secs(20);

/// How often a process is looked at that something is waited for of.
const LOOK: Duration = Duration::from_millis(10);

/// The program that runs, as a command with `words`, on `processors` (as `taskset -c` names them:
/// `0` or `0,1`) alone if any are said.
///
/// # Errors
/// The system does not say where the program is.
pub fn this_program(words: &[&str], processors: Option<&str>) -> Result<Command> {
    let program = std::env::current_exe()
        .map_err(|error| Error::invalid("the system does not say where this program is").because(error))?;
    let mut command = match processors {
        None => Command::new(program),
        Some(processors) => {
            let mut command = Command::new("taskset");
            command.args(["-c", processors]).arg(program);
            command
        }
    };
    command.arg(ENDS_WITH_US).args(words);
    Ok(command)
}

/// A process that was started here, which is the only one to hold the other end of its standard
/// input.
///
/// 1. It is killed when this is dropped.
/// 2. If the process that started it ends in whatever way, it ends: its standard input is closed
///    then, which [`this_program`] has it wait for.
/// 3. Signals of the terminal do not reach it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    out: PathBuf,
    complaints: PathBuf,
}

impl Process {
    /// Starts `command`; what it says goes to `NAME.out` and `NAME.err` in `logs`.
    ///
    /// # Errors
    /// The system does not start it, or the files cannot be made.
    pub fn start(name: &str, mut command: Command, logs: &Path) -> Result<Self> {
        let out = logs.join(format!("{name}.out"));
        let complaints = logs.join(format!("{name}.err"));
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |what: &str, error| Error::invalid(format!("cannot {what}")).because(error);
        let file = |path: &Path| {
            File::create(path).map_err(|error| failed(&format!("create {}", path.display()), error))
        };
        command.stdin(Stdio::piped()).stdout(file(&out)?).stderr(file(&complaints)?).process_group(0);
        let child = command.spawn().map_err(|error| failed(&format!("start {program}"), error))?;
        Ok(Self { name: name.to_owned(), child, out, complaints })
    }

    /// The same, once it has said its first line, which is returned too.
    ///
    /// # Errors
    /// Also if it ends before, with what it complained of, or is silent for a minute.
    pub fn start_and_hear(name: &str, command: Command, logs: &Path) -> Result<(Self, String)> {
        let (mut process, clock) = (Self::start(name, command, logs)?, SystemClock::new());
        let until = clock.now() + BEGIN_MAX;
        loop {
            let said = process.said();
            if let Some((line, _)) = said.split_once('\n') {
                return Ok((process, line.to_owned()));
            }
            process.check()?;
            if clock.now() > until {
                return Err(Error::invalid(format!("{name} has said nothing for {} s", BEGIN_MAX.as_secs())));
            }
            clock.sleep(LOOK);
        }
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything that it has said.
    pub fn said(&self) -> String {
        text_of(&self.out)
    }

    /// Everything that it has complained of.
    pub fn complaints(&self) -> String {
        text_of(&self.complaints)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time that it has used, user and system.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn cpu(&self) -> Result<Duration> {
        let cpu = ProcessCpu::of(self.id())
            .map_err(|error| Error::invalid(format!("{} is not there any more", self.name)).because(error))?;
        Ok(cpu.user + cpu.system)
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// It has ended, with its last complaint.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(&status.to_string())),
            Err(error) => Err(Error::invalid(format!("cannot look at {}", self.name)).because(error)),
        }
    }

    fn ended(&self, how: &str) -> Error {
        let complaints = self.complaints();
        let last = complaints.lines().last().map_or(String::new(), |line| format!(": {line}"));
        Error::invalid(format!("{} has ended ({how}){last}", self.name))
    }

    /// Waits until it ends by itself, for at most `limit`; meanwhile calls `look`.
    ///
    /// # Errors
    /// It ends badly, with its last complaint; it does not end; what `look` says.
    pub fn wait(mut self, limit: Duration, mut look: impl FnMut(&Self) -> Result<()>) -> Result<()> {
        let clock = SystemClock::new();
        let until = clock.now() + limit;
        while clock.now() < until {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.ended(&status.to_string())),
                Err(error) => {
                    return Err(Error::invalid(format!("cannot look at {}", self.name)).because(error));
                }
            }
            look(&self)?;
            clock.sleep(LOOK);
        }
        Err(Error::new(ErrorKind::Retry, format!("{} has not ended after {} s", self.name, limit.as_secs())))
    }

    /// Asks it to end, and waits for that; after 20 s it is killed.
    ///
    /// # Errors
    /// It had to be killed, or said that it failed.
    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.wait(END_MAX, |_| Ok(()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed, and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is in a file that a process writes; nothing if it cannot be read.
fn text_of(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_process_says_its_line_and_ends_with_its_standard_input() {
        let logs = tempfile::tempdir().unwrap();
        let text = "echo here; read rest; echo gone";
        let (process, line) = Process::start_and_hear("one", shell(text), logs.path()).unwrap();
        assert_eq!((line.as_str(), process.name()), ("here", "one"));
        assert!(process.cpu().is_ok());
        // A shell says 0 for what was read last.
        process.end().unwrap();
        assert_eq!(text_of(&logs.path().join("one.out")), "here\ngone\n");
    }

    #[test]
    fn who_ends_badly_is_quoted_and_who_is_late_is_killed() {
        let logs = tempfile::tempdir().unwrap();
        let failed = Process::start_and_hear("two", shell("echo no luck >&2; exit 3"), logs.path());
        let failed = failed.map(drop).unwrap_err().to_string();
        assert!(failed.contains("two has ended") && failed.contains("no luck"), "{failed}");
        let (late, _) =
            Process::start_and_hear("three", shell("echo x; exec sleep 100"), logs.path()).unwrap();
        let id = late.id();
        let error = late.wait(Duration::from_millis(50), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("has not ended"), "{error}");
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
