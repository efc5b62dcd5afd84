//! `cargo x cures`: takes out, one after the other, what keeps known mistakes away, and sees the
//! tests fail that are about it.
//!
//! ```text
//!   crates/*/tests/cures/*.patch ─► a checkout of HEAD, patched ─► builds? ─► its test fails? ─► patched back
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::checkout::{self, succeed};
use crate::repository::root;

/// What `cargo x cures` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Only cures whose file has this in its name.
    name: Option<String>,
}

/// A patch that takes something out. Its text says what, and which tests are to fail, before the
/// first line of the patch itself:
///
/// ```text
/// Cure: relocations of what is collected again lead to where it is then
/// Fails: firn-tree it blobs::holes::a_gc_of_a_gc_loses_no_update_between_them
/// ```
#[derive(Debug, PartialEq, Eq)]
struct Cure {
    what: String,
    fails: Vec<Test>,
}

/// A test that is to fail.
#[derive(Debug, PartialEq, Eq)]
struct Test {
    package: String,
    /// `lib`, or the name of a binary of integration tests.
    target: String,
    name: String,
}

impl Test {
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match <[String; 3]>::try_from(words) {
            Ok([package, target, name]) => Ok(Self { package, target, name }),
            Err(_) => bail!("expected `Fails: PACKAGE TARGET TEST`, found `Fails: {text}`"),
        }
    }

    /// Has cargo build it (`--no-run`), or run it alone.
    fn cargo(&self, checkout: &Path, is_run: bool) -> Result<Output> {
        let mut command = cargo::call("cargo");
        command.args(["test", "--quiet", "--package", &self.package]);
        match self.target.as_str() {
            "lib" => command.arg("--lib"),
            target => command.args(["--test", target]),
        };
        match is_run {
            true => command.args(["--", "--exact", &self.name]),
            false => command.arg("--no-run"),
        };
        let command = command.env("CARGO_TARGET_DIR", checkout.join("../target")).current_dir(checkout);
        command.output().context("cannot run cargo")
    }
}

impl Cure {
    fn parse(text: &str) -> Result<Self> {
        let head = text.lines().take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- "));
        let (mut what, mut fails) = (None, Vec::new());
        for line in head {
            match line.split_once(": ") {
                Some(("Cure", said)) => what = Some(said.trim().to_owned()),
                Some(("Fails", test)) => fails.push(Test::parse(test.trim())?),
                _ => {}
            }
        }
        ensure!(!fails.is_empty(), "expected a line `Fails: PACKAGE TARGET TEST` above the patch");
        Ok(Self { what: what.context("expected a line `Cure: WHAT` above the patch")?, fails })
    }
}

/// Runs every cure against a checkout of `HEAD` under `target/cures`; `Ok(true)` if every test
/// failed that should.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let patches = patches(&root, options.name.as_deref())?;
    ensure!(!patches.is_empty(), "no cure is called so: they are crates/*/tests/cures/*.patch");
    let checkout = checkout::of(&root, "cures", &checkout::resolve(&root, "HEAD")?)?;
    let (mut missed, mut broken) = (0, 0);
    for (index, patch) in patches.iter().enumerate() {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        let text =
            std::fs::read_to_string(patch).with_context(|| format!("cannot read {}", patch.display()))?;
        let cure = Cure::parse(&text).with_context(|| patch.display().to_string())?;
        println!("{}/{} {name}: without \"{}\"", index + 1, patches.len(), cure.what);
        let noticed = match take_out(&checkout, patch, &cure) {
            Ok(noticed) => noticed,
            Err(error) => {
                broken += 1;
                println!("    NOT TAKEN OUT: {error:#}");
                continue;
            }
        };
        for (test, is_noticed) in noticed {
            missed += usize::from(!is_noticed);
            println!(
                "    {} {test}",
                if is_noticed { "fails, as it should:" } else { "PASSES ALL THE SAME:" }
            );
        }
    }
    println!("{} cures, {missed} tests did not notice, {broken} cures could not be taken out", patches.len());
    Ok(missed == 0 && broken == 0)
}

fn patches(root: &Path, name: Option<&str>) -> Result<Vec<PathBuf>> {
    let mut patches = Vec::new();
    for package in std::fs::read_dir(root.join("crates")).context("cannot list the crates")? {
        let Ok(files) = std::fs::read_dir(package?.path().join("tests/cures")) else { continue };
        for file in files {
            let path = file?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_asked = name.is_none_or(|name| stem.contains(name));
            if is_asked && path.extension().is_some_and(|extension| extension == "patch") {
                patches.push(path);
            }
        }
    }
    patches.sort();
    Ok(patches)
}

/// Patches `checkout`, and tells of each test whether it fails there.
fn take_out(checkout: &Path, patch: &Path, cure: &Cure) -> Result<Vec<(String, bool)>> {
    let patch = patch.to_string_lossy().into_owned();
    let git = |arguments: &[&str]| {
        succeed(Command::new("git").args(arguments).current_dir(checkout))
            .with_context(|| format!("{patch}: make it anew for the code as it is"))
    };
    git(&["apply", &patch])?;
    let noticed = cure.fails.iter().map(|test| {
        // A patch that does not build is an error, not a failed test.
        let built = test.cargo(checkout, false)?;
        ensure!(
            built.status.success(),
            "{patch} does not build:\n{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let output = test.cargo(checkout, true)?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(!said.contains("running 0 tests"), "{patch}: {} has no test {}", test.package, test.name);
        Ok((test.name.clone(), !output.status.success()))
    });
    let noticed: Result<Vec<_>> = noticed.collect();
    git(&["apply", "--reverse", &patch])?;
    noticed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cure_says_what_it_takes_out_and_who_notices() {
        let text = "Cure: a thing\nFails: firn-tree it one::test\nFails: firn-jobs lib other\n\ndiff --git a/x b/x\nFails: no\n";
        let test = |package: &str, target: &str, name: &str| Test {
            package: package.to_owned(),
            target: target.to_owned(),
            name: name.to_owned(),
        };
        let fails = vec![test("firn-tree", "it", "one::test"), test("firn-jobs", "lib", "other")];
        assert_eq!(Cure::parse(text).expect("a cure"), Cure { what: "a thing".to_owned(), fails });
        assert!(Cure::parse("Cure: a thing\n\ndiff --git a/x b/x\n").is_err(), "nobody notices");
        assert!(Cure::parse("Fails: firn-tree it one\n").is_err(), "of what?");
    }

    /// Each still fits the code: `cargo x cures` takes long, and is run seldom.
    #[test]
    fn cures_apply_to_the_code_as_it_is() {
        let patches = patches(&root(), None).expect("listed");
        assert!(!patches.is_empty());
        for patch in patches {
            let text = std::fs::read_to_string(&patch).expect("read");
            Cure::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", patch.display()));
            let check =
                Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root()).output();
            let output = check.expect("git runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", patch.display());
        }
    }
}
