//! A PostgreSQL server of a test's own, with a collation that sorts unlike bytes.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The superuser, and the role with a password that may log in over TCP.
const STEWARD: &str = "steward";

/// A running server in a folder of its own. It stops when the last holder lets go of it.
pub struct Postgres {
    programs: PathBuf,
    folder: String,
    port: u16,
}

impl Postgres {
    /// The server that the tests of this process share; `None`, with a word on standard error, where none is installed.
    ///
    /// # Panics
    /// A server that is installed and does not start.
    pub fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let running = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&running);
        Some(running)
    }

    /// A server of one test's own, which it may stop; `None` as for [`Postgres::shared`].
    ///
    /// # Panics
    /// As [`Postgres::shared`].
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: no PostgreSQL server is installed (apt-get install postgresql)");
            return None;
        };
        // The account of the server must own the folder: the crate `tempfile` would make it ours.
        let folder = done(command(Path::new("mktemp")).args(["-d", "-t", "dither-postgres-XXXXXX"]).output());
        let server = Self { programs, folder: folder.trim().to_owned(), port: free_port() };
        server.call("initdb", |command| {
            let icu = ["--locale=C.UTF-8", "--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US"];
            let log_in = ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--username", STEWARD];
            command.args(["-D", &server.data()]).args(icu).args(log_in)
        });
        let options = format!(
            "-k {} -p {} -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=32MB -c track_activity_query_size=1MB",
            server.folder, server.port
        );
        server.call("pg_ctl", |command| {
            let log = format!("{}/log", server.folder);
            command.args(["-D", &server.data(), "-w", "-s", "-l", &log, "-o", &options, "start"])
        });
        Some(server)
    }

    /// Runs a script as the superuser and gives what it prints: a line for each row, `|` between cells.
    ///
    /// # Panics
    /// A script that fails.
    pub fn sql(&self, script: &str) -> String {
        done(self.try_sql(script))
    }

    /// Runs a script and gives what became of it.
    ///
    /// # Errors
    /// A client that cannot be run.
    pub fn try_sql(&self, script: &str) -> std::io::Result<Output> {
        let mut client = command(&self.programs.join("psql"));
        let place =
            ["-h", &self.folder, "-p", &self.port.to_string(), "-U", STEWARD, "-d", "postgres"].map(String::from);
        client.args(place).args(["-v", "ON_ERROR_STOP=1", "-q", "-At", "-f", "-"]);
        fed(&mut client, script)
    }

    /// The URL of the server through its socket, for a role that needs no password there.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{role}@/postgres?host={}&port={}", self.folder, self.port)
    }

    /// Where the server listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server through TCP, where roles need their passwords.
    pub fn tcp_url(&self, role: &str, password: &str) -> String {
        self.host_url(role, password, "127.0.0.1")
    }

    /// The same for another name of this machine.
    pub fn host_url(&self, role: &str, password: &str, host: &str) -> String {
        format!("postgres://{role}:{password}@{host}:{}/postgres", self.port)
    }

    /// Lets the server offer TLS over TCP, with a certificate and its key in PEM.
    ///
    /// # Panics
    /// Files that cannot be written, or a server that does not take them.
    pub fn encrypt(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let script = format!("umask 077; cat > '{}/{name}'", self.data());
            done(fed(command(Path::new("sh")).args(["-c", &script]), text));
        }
        self.sql("ALTER SYSTEM SET ssl = on");
        self.sql("SELECT pg_reload_conf()");
        for _ in 0..100 {
            if self.sql("SHOW ssl").trim() == "on" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server offers no TLS; see {}/log", self.folder);
    }

    /// What the server has logged.
    ///
    /// # Panics
    /// A log that cannot be read.
    pub fn log(&self) -> String {
        done(command(Path::new("cat")).arg(format!("{}/log", self.folder)).output())
    }

    /// Stops the server at once, as a crash would.
    pub fn stop(&self) {
        let _ = self.command("pg_ctl").args(["-D", &self.data(), "-s", "-m", "immediate", "stop"]).output();
    }

    fn data(&self) -> String {
        format!("{}/data", self.folder)
    }

    fn command(&self, program: &str) -> Command {
        command(&self.programs.join(program))
    }

    fn call(&self, program: &str, with: impl FnOnce(&mut Command) -> &mut Command) {
        let mut command = self.command(program);
        // The server keeps what it inherits: with a pipe this would wait for the end of it.
        let status = with(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{program} failed; see {}/log", self.folder);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
        let _ = command(Path::new("rm")).args(["-rf", &self.folder]).status();
    }
}

/// The newest installed server's programs, where Debian has them.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path))?;
    let programs = newest.join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// A program as somebody else than root, whom the server refuses to serve.
fn command(program: &Path) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    let mut command = match root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
            command
        }
        false => Command::new(program),
    };
    command.current_dir("/").env("LC_ALL", "C.UTF-8").env_remove("PGPASSWORD");
    command
}

/// Runs a program that reads a text.
fn fed(program: &mut Command, text: &str) -> std::io::Result<Output> {
    let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = running.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    running.wait_with_output()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map_or(54321, |address| address.port())
}

fn done(output: std::io::Result<Output>) -> String {
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{error}"),
    }
}
