//! `cargo x dist`: the program as it is installed, and what comes with it.
//!
//! ```text
//!   cargo build --profile dist ─► firn, stripped ─ names ─► firn.debug: functions and lines
//!                                      └─► completions/, man1/
//! ```
//! A backtrace of the stripped program has names and lines where `firn.debug` lies beside it, and a
//! debugger finds it there too. Cargo's own `split-debuginfo` leaves line tables and names in the
//! program, where `strip` takes them away: a package of DWARF beside it does not bring them back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::repository::root;

/// What `cargo x dist` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Where everything goes [default: target/dist/firn-package]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Builds and splits the program; always `Ok(true)`.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let folder = options.to.clone().unwrap_or_else(|| root.join("target/dist/firn-package"));
    let folder = std::path::absolute(&folder).with_context(|| format!("no path: {}", folder.display()))?;
    println!("building firn with debug information, in some minutes");
    let mut build = cargo::call("cargo");
    build.args(["build", "--locked", "--profile", "dist", "--package", "firn-cli", "--bin", "firn"]);
    done(build.current_dir(&root), "firn does not build")?;
    split(&root.join("target/dist/firn"), &folder)?;
    extras(&folder)?;
    for name in ["firn", "firn.debug"] {
        let path = folder.join(name);
        let bytes = fs::metadata(&path).with_context(|| format!("cannot look at {}", path.display()))?.len();
        println!("{:>6.1} MB  {}", bytes as f64 / 1e6, path.display());
    }
    Ok(true)
}

/// Makes `firn`, stripped, and `firn.debug` of `program`, in `folder`.
fn split(program: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (stripped, debug) = (folder.join("firn"), folder.join("firn.debug"));
    let mut keep = cargo::call("objcopy");
    done(
        keep.arg("--only-keep-debug").args([program, debug.as_path()]),
        "cannot split off debug information",
    )?;
    let mut strip = cargo::call("objcopy");
    // The name alone is kept of the path, so that both may be moved together.
    strip.arg("--strip-all").arg("--add-gnu-debuglink=firn.debug").args([program, stripped.as_path()]);
    done(strip.current_dir(folder), "cannot strip the program")
}

/// Completions and manual pages, by the program itself.
fn extras(folder: &Path) -> Result<()> {
    let (completions, manual) = (folder.join("completions"), folder.join("man1"));
    for made in [&completions, &manual] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    for (shell, name) in [("bash", "firn"), ("zsh", "_firn"), ("fish", "firn.fish")] {
        let output = cargo::call(folder.join("firn")).args(["completions", shell]).output();
        let output = output.context("cannot run the program")?;
        ensure!(output.status.success(), "firn completions {shell} failed");
        fs::write(completions.join(name), output.stdout).context("cannot write completions")?;
    }
    done(cargo::call(folder.join("firn")).args(["man", "--to"]).arg(&manual), "cannot write manual pages")
}

fn done(command: &mut std::process::Command, failure: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{failure}: {command:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A program that says where it is, built as the program is.
    const TEXT: &str = "#[inline(never)]\nfn place() -> usize { std::env::args().count() + 6 }\n\
        fn main() { assert!(place() > 9, \"a reason\"); }\n";

    #[test]
    fn a_stripped_program_has_lines_with_its_debug_information_beside_it() {
        let folder = tempfile::tempdir().expect("a directory");
        let (source, program) = (folder.path().join("main.rs"), folder.path().join("whole"));
        fs::write(&source, TEXT).expect("written");
        let mut build = cargo::call("rustc");
        build.args(["-Cdebuginfo=line-tables-only", "-Copt-level=1", "--edition=2024"]).arg(&source);
        done(build.arg("-o").arg(&program), "it does not build").expect("built");
        split(&program, &folder.path().join("package")).expect("split");
        let stripped = folder.path().join("package/firn");
        let lines = || {
            let output = Command::new(&stripped).env("RUST_BACKTRACE", "1").output().expect("it runs");
            String::from_utf8_lossy(&output.stderr).contains("main.rs:3:")
                && String::from_utf8_lossy(&output.stderr).matches("main.rs:").count() > 1
        };
        assert!(lines(), "it finds them");
        fs::remove_file(folder.path().join("package/firn.debug")).expect("removed");
        assert!(!lines(), "they are not in the program");
        let bytes = |path: &Path| fs::metadata(path).expect("there").len();
        assert!(bytes(&stripped) * 3 < bytes(&program), "{} of {}", bytes(&stripped), bytes(&program));
    }
}
