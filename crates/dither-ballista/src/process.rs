//! The processes of a cluster: Ballista's own, with settings that fit.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ballista_core::error::BallistaError;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;

use tokio::net::TcpStream;

use crate::place::host_and_port;

/// How often an executor says that it is there, in seconds.
const HEARTBEAT: u64 = 2;

/// How long results and what led to them lie in the folders of executors after a job, in seconds. A client fetches a
/// result at once.
const KEPT: u64 = 60;

/// How long to wait before asking again whether a process listens.
const ASKED: Duration = Duration::from_millis(100);

/// The process that plans jobs and hands out their parts.
///
/// # Privacy
/// Whoever reaches its port may run anything that DataFusion can on whatever files its executors may read: there is
/// no authentication. It listens on this machine unless `trusted_network` says otherwise.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// Where it listens.
    pub bind: SocketAddr,
    /// The name or address under which executors reach it; the one it listens on by default.
    pub advertise: Option<String>,
    /// After how many seconds without a word an executor counts as lost, and others do its work.
    pub executor_timeout: u64,
    /// Whether everybody who can reach it may.
    pub trusted_network: bool,
}

/// The process that reads rows and counts.
///
/// # Privacy
/// As for [`Scheduler`]. Rows lie in its working folder while they are passed on, and up to a minute longer.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The scheduler, as host and port.
    pub scheduler: String,
    /// Where others fetch what it has counted.
    pub bind: SocketAddr,
    /// The port at which the scheduler hands it work.
    pub work_port: u16,
    /// The name or address under which the others reach it; the one that the scheduler sees by default.
    pub advertise: Option<String>,
    /// The folder for rows that are passed on; by default a new one that goes with the process.
    pub work_dir: Option<PathBuf>,
    /// How many parts it works on at once; all cores by default.
    pub cores: Option<usize>,
    /// The bytes of memory for rows, beyond which they are put on disk; seven tenths of the machine's by default.
    pub memory: Option<u64>,
    /// Whether everybody who can reach it may.
    pub trusted_network: bool,
}

/// Why a process of the cluster did not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// Others could reach it, and nobody said that they may.
    #[error("{0} can be reached from other machines, and nothing is encrypted or authenticated")]
    Open(SocketAddr),
    /// The address cannot be listened on, as when another process does.
    #[error("nothing can listen on {address}: {source}")]
    Taken {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It listens everywhere, which is no address that others could use.
    #[error("{0} is no address that executors could use")]
    NoAddress(SocketAddr),
    /// The scheduler is not named as host and port.
    #[error("{0} is not a host and a port")]
    Scheduler(String),
    /// The working folder cannot be made.
    #[error("the working folder cannot be used")]
    Folder(#[source] io::Error),
    /// Ballista could not go on.
    #[error("the process of the cluster has ended: {0}")]
    Ended(BallistaError),
}

impl ProcessError {
    /// A short stable code in kebab case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open(_) => "cluster-open",
            Self::Taken { .. } => "cluster-address-taken",
            Self::NoAddress(_) => "cluster-no-address",
            Self::Scheduler(_) => "cluster-scheduler",
            Self::Folder(_) => "cluster-folder",
            Self::Ended(_) => "cluster-ended",
        }
    }

    /// What to change.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Open(_) => {
                "listen on 127.0.0.1, or add --trusted-network where everybody who can reach the port may read the files"
            }
            Self::Taken { .. } => "choose another address or port, or end the process that listens there",
            Self::NoAddress(_) => "add --advertise with the name or address of this machine",
            Self::Scheduler(_) => "write it as 127.0.0.1:50050",
            Self::Folder(_) => "choose another folder with --work-dir",
            Self::Ended(_) => "look at the scheduler and at the network between it and this machine",
        }
    }
}

impl Scheduler {
    /// Serves until the process is ended.
    ///
    /// # Errors
    /// Settings that make no sense, and an address that is taken.
    pub async fn run(self) -> Result<(), ProcessError> {
        self.run_with(|| ()).await
    }

    /// The same, and calls `ready` once it listens.
    ///
    /// # Errors
    /// As [`Scheduler::run`].
    pub async fn run_with(self, ready: impl FnOnce()) -> Result<(), ProcessError> {
        guarded(self.bind, self.trusted_network)?;
        listening(&[self.bind], self.serve(), ready).await
    }

    async fn serve(self) -> Result<(), ProcessError> {
        let unspecified = self.bind.ip().is_unspecified();
        let external_host = match self.advertise {
            Some(host) => host,
            None if unspecified => return Err(ProcessError::NoAddress(self.bind)),
            None => in_url(self.bind),
        };
        let config = SchedulerConfig {
            bind_host: self.bind.ip().to_string(),
            bind_port: self.bind.port(),
            external_host,
            executor_timeout_seconds: self.executor_timeout.max(2 * HEARTBEAT),
            expire_dead_executor_interval_seconds: 1,
            // Without any executor jobs fail after this time.
            no_executors_grace_period_seconds: self.executor_timeout.max(2 * HEARTBEAT),
            finished_job_data_clean_up_interval_seconds: KEPT,
            // Results come through the scheduler, so that its port is the only one that a client needs.
            enable_embedded_flight_proxy: true,
            ..SchedulerConfig::default()
        };
        let cluster = BallistaCluster::new_from_config(&config).await.map_err(ProcessError::Ended)?;
        start_server(cluster, self.bind, Arc::new(config)).await.map_err(ProcessError::Ended)
    }
}

impl Executor {
    /// Works until the process is asked to end.
    ///
    /// # Errors
    /// Settings that make no sense, an address that is taken, a scheduler that cannot be reached.
    pub async fn run(self) -> Result<(), ProcessError> {
        self.run_with(|| ()).await
    }

    /// The same, and calls `ready` once it listens for work, which it does when it has reached the scheduler.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub async fn run_with(self, ready: impl FnOnce()) -> Result<(), ProcessError> {
        guarded(self.bind, self.trusted_network)?;
        listening(&[self.bind, SocketAddr::new(self.bind.ip(), self.work_port)], self.work(), ready).await
    }

    async fn work(self) -> Result<(), ProcessError> {
        let scheduler = host_and_port(&self.scheduler).map(|(host, port)| (host.to_owned(), port));
        let (scheduler_host, scheduler_port) =
            scheduler.ok_or_else(|| ProcessError::Scheduler(self.scheduler.clone()))?;
        // Kept until the end: the folder goes with it.
        let own = match &self.work_dir {
            Some(folder) => private(folder).map(|()| None),
            None => tempfile::Builder::new().prefix("dither-executor-").tempdir().map(Some),
        };
        let own = own.map_err(ProcessError::Folder)?;
        let folder = own.as_ref().map_or(self.work_dir.as_deref(), |own| Some(own.path()));
        let config = ExecutorProcessConfig {
            bind_host: self.bind.ip().to_string(),
            port: self.bind.port(),
            grpc_port: self.work_port,
            external_host: self.advertise,
            scheduler_host,
            scheduler_port,
            // So that the order in which processes are started does not matter.
            scheduler_connect_timeout_seconds: 30,
            vcores: self.cores.unwrap_or(0),
            memory_pool_size: self.memory,
            work_dir: folder.map(|folder| folder.to_string_lossy().into_owned()),
            executor_heartbeat_interval_seconds: HEARTBEAT,
            ..ExecutorProcessConfig::default()
        };
        start_executor_process(Arc::new(config)).await.map_err(ProcessError::Ended)
    }
}

/// Runs a process that listens on these addresses, and calls `ready` once it does on the first.
///
/// A process of Ballista says nothing when it listens. So the addresses are tried before, and then asked until one answers.
async fn listening(
    addresses: &[SocketAddr],
    run: impl Future<Output = Result<(), ProcessError>>,
    ready: impl FnOnce(),
) -> Result<(), ProcessError> {
    for address in addresses {
        TcpListener::bind(address).map_err(|source| ProcessError::Taken { address: *address, source })?;
    }
    let Some(mut asked) = addresses.first().copied() else { return run.await };
    if asked.ip().is_unspecified() {
        asked.set_ip(if asked.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    let mut run = std::pin::pin!(run);
    loop {
        tokio::select! {
            done = &mut run => return done,
            () = tokio::time::sleep(ASKED) => if TcpStream::connect(asked).await.is_ok() { break },
        }
    }
    ready();
    run.await
}

/// Refuses an address that others can reach, unless they may.
fn guarded(bind: SocketAddr, trusted: bool) -> Result<(), ProcessError> {
    match trusted || bind.ip().is_loopback() {
        true => Ok(()),
        false => Err(ProcessError::Open(bind)),
    }
}

/// An address as it stands in a URL.
fn in_url(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Makes a folder that only its owner may read, if there is none.
fn private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn nothing_listens_for_others_unless_they_are_trusted() {
        let scheduler = |bind: &str, advertise: Option<&str>, trusted_network| Scheduler {
            bind: bind.parse().unwrap(),
            advertise: advertise.map(str::to_owned),
            executor_timeout: 10,
            trusted_network,
        };
        for open in ["0.0.0.0:0", "192.0.2.1:50050", "[::]:0"] {
            assert!(matches!(scheduler(open, None, false).run().await, Err(ProcessError::Open(_))), "{open}");
        }
        assert!(matches!(scheduler("0.0.0.0:0", None, true).run().await, Err(ProcessError::NoAddress(_))));
        let executor = Executor {
            scheduler: "127.0.0.1:1".into(),
            bind: "0.0.0.0:50051".parse().unwrap(),
            work_port: 50052,
            advertise: None,
            work_dir: None,
            cores: None,
            memory: None,
            trusted_network: false,
        };
        assert!(matches!(executor.clone().run().await, Err(ProcessError::Open(_))));
        for error in [ProcessError::Open("0.0.0.0:1".parse().unwrap()), ProcessError::Scheduler("x".into())] {
            assert!(!error.hint().is_empty() && error.code().starts_with("cluster-"));
        }
        assert!(ProcessError::Open("0.0.0.0:1".parse().unwrap()).hint().contains("--trusted-network"));
        let nowhere =
            Executor { scheduler: "no port:x".into(), bind: "127.0.0.1:0".parse().unwrap(), work_port: 0, ..executor };
        assert!(matches!(nowhere.run().await, Err(ProcessError::Scheduler(_))));
    }

    #[tokio::test]
    async fn nothing_is_announced_before_it_listens() {
        let told = || Arc::new(AtomicBool::new(false));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (early, forever) = (told(), std::future::pending());
        let run = listening(&[address], forever, || early.store(true, Relaxed)).await;
        assert!(matches!(run, Err(ProcessError::Taken { .. })) && !early.load(Relaxed));
        drop(taken);
        // It listens after a while, and is announced then and not before.
        let late = told();
        let process = async {
            tokio::time::sleep(3 * ASKED).await;
            assert!(!late.load(Relaxed), "nobody listened yet");
            let _listener = TcpListener::bind(address).unwrap();
            tokio::time::timeout(Duration::from_secs(10), async {
                while !late.load(Relaxed) {
                    tokio::time::sleep(ASKED).await;
                }
            })
            .await
            .unwrap();
            Ok(())
        };
        listening(&[address], process, || late.store(true, Relaxed)).await.unwrap();
        assert!(late.load(Relaxed));
    }
}
