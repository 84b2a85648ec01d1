//! What is said of a bug: one constant text. Where it is may depend on a row, and so may the message of a panic, which may
//! even quote one. The place is for the operator's log; the message is for nobody.

use std::io::Write;
use std::panic::{self, Location};

use dither_learn::train::guarded::is_guarded;

use crate::failure::log;

const SAID: &str = "error[bug]: Dither failed\n\
                    hint: what was charged stands, and asking the same again is not charged twice; the operator's log says where \
                    it failed, if DITHER_OPERATOR_LOG names one";

/// Has every panic of every thread say the same, and its place to the operator. One that is caught on purpose says nothing.
pub fn report_to_the_operator() {
    panic::set_hook(Box::new(|bug| {
        if !is_guarded() {
            // Standard error may be closed; that is no reason for a second panic.
            let _ = writeln!(std::io::stderr(), "{SAID}");
            log(&placed(bug.location()));
        }
    }));
}

fn placed(place: Option<&Location<'_>>) -> String {
    let place = place.map_or("an unknown place".into(), |at| format!("{}:{}", within(at.file()), at.line()));
    format!("a bug at {place}; please report this place")
}

/// The path within its crate: what stands before it tells about the machine that built the program.
fn within(file: &str) -> &str {
    if let Some((_, registry)) = file.rsplit_once("/registry/src/") {
        return registry.split_once('/').map_or(registry, |(_, file)| file);
    }
    file.split_once("/library/").filter(|_| file.starts_with("/rustc/")).map_or(file, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use dither_learn::train::guarded::guarded;

    use super::*;

    /// Says in a process of its own whether a hook is set; tests share theirs.
    const CHILD: &str = "DITHER_TEST_PANIC";
    const SECRET: &str = "patient 4711";

    #[allow(clippy::panic, reason = "panics are what is tested")]
    fn fail() {
        panic!("{SECRET}");
    }

    #[test]
    fn the_child_that_panics() {
        let Ok(hook) = std::env::var(CHILD) else { return };
        if hook == "set" {
            report_to_the_operator();
        }
        assert_eq!(guarded(fail), None);
        assert!(panic::catch_unwind(fail).is_err());
        assert!(std::thread::spawn(fail).join().is_err());
        let rows: Vec<u8> = Vec::new();
        assert!(std::thread::spawn(move || rows[std::hint::black_box(SECRET.len())]).join().is_err());
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        assert!(runtime.block_on(async { tokio::task::spawn_blocking(fail).await }).is_err());
        assert!(runtime.block_on(async { tokio::spawn(async { fail() }).await }).is_err());
    }

    /// The control: without the hook message and place are shown, also of the panic that is caught on purpose.
    #[test]
    fn sv_11_a_panic_of_any_thread_shows_one_text_and_its_place_to_the_operator_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let run = |hook: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "bug::tests::the_child_that_panics", "--nocapture"]);
            child.env("DITHER_OPERATOR_LOG", &file);
            let output = child.env(CHILD, hook).env("RUST_BACKTRACE", "1").output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        };
        let said = run("set");
        assert!(!said.contains(SECRET) && !said.contains("stack backtrace") && !said.contains(".rs"), "{said}");
        assert_eq!(said.matches(SAID).count(), 5, "{said}");
        let logged = std::fs::read_to_string(&file).unwrap();
        assert!(!logged.contains(SECRET), "{logged}");
        assert_eq!(logged.matches("a bug at crates/dither-cli/src/bug.rs:").count(), 5, "{logged}");
        let control = run("none");
        assert_eq!(control.matches(SECRET).count(), 5, "{control}");
        assert!(control.contains("src/bug.rs:"), "{control}");
    }

    #[test]
    fn a_place_says_nothing_of_the_machine_that_built_the_program() {
        for (file, shown) in [
            ("crates/dither-query/src/plan.rs", "crates/dither-query/src/plan.rs"),
            ("/x/registry/src/index-19cf/tokenizers-0.22.1/src/lib.rs", "tokenizers-0.22.1/src/lib.rs"),
            ("/rustc/abc/library/core/src/option.rs", "core/src/option.rs"),
        ] {
            assert_eq!(within(file), shown);
        }
    }
}
