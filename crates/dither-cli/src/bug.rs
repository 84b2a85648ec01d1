//! What is said of a bug: where in the program it is, and nothing else. The message of a panic may quote a row.

use std::io::Write;
use std::panic::{self, Location};

use dither_learn::train::guarded::is_guarded;

/// Has every panic of every thread say its place only. One that is caught on purpose says nothing.
pub fn report_place_only() {
    panic::set_hook(Box::new(|bug| {
        if !is_guarded() {
            // Standard error may be closed; that is no reason for a second panic.
            let _ = writeln!(std::io::stderr(), "{}", said(bug.location()));
        }
    }));
}

fn said(place: Option<&Location<'_>>) -> String {
    let place = place.map_or("an unknown place".into(), |at| format!("{}:{}", within(at.file()), at.line()));
    format!(
        "error[bug]: Dither failed at {place}; please report this place\n\
         hint: what was charged stands, and asking the same again is not charged twice"
    )
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
            report_place_only();
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

    /// The control: without the hook the message is shown, also of the panic that is caught on purpose.
    #[test]
    fn sv_11_a_panic_of_any_thread_shows_its_place_and_never_its_message() {
        let run = |hook: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "bug::tests::the_child_that_panics", "--nocapture"]);
            let output = child.env(CHILD, hook).env("RUST_BACKTRACE", "1").output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        };
        let said = run("set");
        assert!(!said.contains(SECRET) && !said.contains("stack backtrace"), "{said}");
        assert_eq!(said.matches("error[bug]: Dither failed at ").count(), 5, "{said}");
        assert_eq!(said.matches("src/bug.rs:").count(), 5, "{said}");
        let control = run("none");
        assert_eq!(control.matches(SECRET).count(), 5, "{control}");
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
