//! What can be typed behind `dither cluster`.

// Without the feature all of this is read and nothing of it used.
#![cfg_attr(not(feature = "cluster"), allow(dead_code))]

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub struct Cluster {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Plan jobs and hand out their parts
    Scheduler(SchedulerProcess),
    /// Read rows and count; start as many as there are machines
    Executor(ExecutorProcess),
}

#[derive(ClapArgs)]
pub struct SchedulerProcess {
    /// Where to listen for executors and questions
    #[arg(long, default_value = "127.0.0.1:50050")]
    pub bind: SocketAddr,
    /// The name or address under which executors reach it [default: that of --bind]
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// After how many seconds without a word an executor counts as lost, and others do its work
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub executor_timeout: u64,
    /// Listen for other machines too: whoever reaches the port may read every file that the processes may
    #[arg(long)]
    pub trusted_network: bool,
}

#[derive(ClapArgs)]
pub struct ExecutorProcess {
    /// The scheduler to work for
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub scheduler: String,
    /// Where others fetch what it has counted; each executor of a machine needs its own
    #[arg(long, default_value = "127.0.0.1:50051")]
    pub bind: SocketAddr,
    /// Where the scheduler hands it work [default: the port of --bind and 1]
    #[arg(long, value_name = "PORT")]
    pub work_port: Option<u16>,
    /// The name or address under which the others reach it [default: the one that the scheduler sees]
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// The folder for rows that are passed on [default: a new one that goes with the process]
    #[arg(long, value_name = "FOLDER")]
    pub work_dir: Option<PathBuf>,
    /// How many parts it works on at once [default: as many as there are cores]
    #[arg(long)]
    pub cores: Option<usize>,
    /// The memory for rows, as in 4GB; what does not fit is put on disk [default: seven tenths of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = super::size)]
    pub memory: Option<usize>,
    /// Listen for other machines too: whoever reaches the ports may read every file that the process may
    #[arg(long)]
    pub trusted_network: bool,
}
