//! A cluster of a scheduler and executors on this machine, as processes that a test may kill.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres::free_port;
use crate::setting;

/// How long processes may take to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes a process of the cluster from its arguments, those of `dither cluster`.
type Program = Box<dyn Fn(&[String]) -> Command + Send + Sync>;

/// Running processes. All of them are killed with it.
pub struct Cluster {
    program: Program,
    folder: PathBuf,
    port: u16,
    scheduler: Option<Child>,
    executors: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts a scheduler and executors with one core each, and waits until they work together.
    ///
    /// # Panics
    /// Processes that do not start.
    pub fn start(
        folder: &Path,
        executors: usize,
        program: impl Fn(&[String]) -> Command + Send + Sync + 'static,
    ) -> Self {
        let folder = folder.join("cluster");
        let mut cluster =
            Self { program: Box::new(program), folder, port: free_port(), scheduler: None, executors: Vec::new() };
        cluster.start_scheduler();
        for index in 0..executors {
            let executor = cluster.executor(index);
            cluster.executors.push(Some(executor));
        }
        cluster.settle();
        cluster
    }

    /// The URL for `--engine`.
    pub fn url(&self) -> String {
        format!("ballista://127.0.0.1:{}", self.port)
    }

    /// Where the scheduler listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder in which an executor keeps rows while they are passed on.
    pub fn work_dir(&self, executor: usize) -> PathBuf {
        self.folder.join(executor.to_string())
    }

    /// Starts the scheduler, at the port where it was before.
    ///
    /// # Panics
    /// A process that does not start.
    pub fn start_scheduler(&mut self) {
        let bind = format!("127.0.0.1:{}", self.port);
        // A measurement beside other work sets more.
        let timeout = setting("DITHER_EXECUTOR_TIMEOUT", 8).to_string();
        self.scheduler = Some(self.spawn(&["scheduler", "--bind", &bind, "--executor-timeout", &timeout]));
        self.wait(|_| true);
    }

    /// Starts one more executor, and waits until it may work.
    ///
    /// # Panics
    /// A process that does not start.
    pub fn add_executor(&mut self) {
        let executor = self.executor(self.executors.len());
        self.executors.push(Some(executor));
        self.settle();
    }

    /// Waits until the scheduler knows which executors there are.
    ///
    /// # Panics
    /// A scheduler that does not find out.
    pub fn settle(&self) {
        match self.executors.iter().flatten().count() {
            0 => self.wait(|state| state.contains(": 0/")),
            running => self.wait(|state| state.contains(&format!(": {running} executors"))),
        }
    }

    /// Kills an executor and takes away what it has written, as if its machine was gone.
    pub fn kill_executor(&mut self, index: usize) {
        end(self.executors[index].take());
        let _ = std::fs::remove_dir_all(self.work_dir(index));
    }

    /// Kills the scheduler.
    pub fn kill_scheduler(&mut self) {
        end(self.scheduler.take());
    }

    /// How many bytes of rows for others lie in the folder of an executor.
    pub fn written(&self, executor: usize) -> u64 {
        size(&self.work_dir(executor))
    }

    /// Waits until an executor has written more bytes of rows for others than these.
    ///
    /// # Panics
    /// An executor that never does.
    pub fn wait_for_rows(&self, executor: usize, bytes: u64) {
        let start = Instant::now();
        while self.written(executor) <= bytes {
            assert!(start.elapsed() < PATIENCE, "the executor has written nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn executor(&self, index: usize) -> Child {
        let scheduler = format!("127.0.0.1:{}", self.port);
        let (bind, work) = (format!("127.0.0.1:{}", free_port()), free_port().to_string());
        let folder = self.work_dir(index);
        let folder = folder.to_string_lossy();
        let place = ["executor", "--scheduler", &scheduler, "--bind", &bind, "--work-port", &work];
        self.spawn(&[&place[..], &["--work-dir", &folder, "--cores", "1", "--memory", "512MB"]].concat())
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let mut command = (self.program)(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Waits until the scheduler says this of itself.
    fn wait(&self, until: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !self.state().is_some_and(|state| until(&state)) {
            assert!(start.elapsed() < PATIENCE, "the cluster does not start: {:?}", self.state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn state(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut state = String::new();
        stream.read_to_string(&mut state).ok()?;
        Some(state)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        end(self.scheduler.take());
        self.executors.iter_mut().for_each(|executor| end(executor.take()));
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The bytes in a folder and all within it.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size(&entry.path()),
        _ => entry.metadata().map_or(0, |file| file.len()),
    });
    sizes.sum()
}
