//! `dither cluster`: the processes of a Ballista cluster.

use crate::args::ClusterCommand;

/// Runs a process of a cluster until it is ended.
#[cfg(feature = "cluster")]
pub async fn run(command: &ClusterCommand) -> anyhow::Result<()> {
    use dither_ballista::{Executor, Scheduler};
    match command {
        ClusterCommand::Scheduler(options) => {
            let scheduler = Scheduler {
                bind: options.bind,
                advertise: options.advertise.clone(),
                executor_timeout: options.executor_timeout,
                trusted_network: options.trusted_network,
            };
            eprintln!("a scheduler on {}; ask with --engine ballista://{0}", options.bind);
            Ok(scheduler.run().await?)
        }
        ClusterCommand::Executor(options) => {
            let next = options.bind.port().checked_add(1);
            let work_port =
                options.work_port.or(next).ok_or_else(|| anyhow::anyhow!("name a port with --work-port"))?;
            let executor = Executor {
                scheduler: options.scheduler.clone(),
                bind: options.bind,
                work_port,
                advertise: options.advertise.clone(),
                work_dir: options.work_dir.clone(),
                cores: options.cores,
                memory: options.memory.map(|bytes| bytes as u64),
                trusted_network: options.trusted_network,
            };
            eprintln!("an executor on {} for the scheduler on {}", options.bind, options.scheduler);
            Ok(executor.run().await?)
        }
    }
}

/// This build has no processes of a cluster.
#[cfg(not(feature = "cluster"))]
pub async fn run(_: &ClusterCommand) -> anyhow::Result<()> {
    absent()
}

/// What to do about a build without them.
#[cfg(not(feature = "cluster"))]
pub fn absent<T>() -> anyhow::Result<T> {
    anyhow::bail!(
        "this build knows no Ballista cluster; build one that does: \
         cargo install --path crates/dither-cli --features cluster --locked"
    )
}
