//! `dither cluster`: the processes of a Ballista cluster.

use crate::args::ClusterCommand;
use crate::failure::Told;

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
            let bind = options.bind;
            let ready = || crate::output::tell(&format!("a scheduler on {bind}; ask with --engine ballista://{bind}"));
            scheduler.run_with(ready).await.map_err(told)
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
            let ready = || {
                crate::output::tell(&format!(
                    "an executor on {} for the scheduler on {}",
                    options.bind, options.scheduler
                ))
            };
            executor.run_with(ready).await.map_err(told)
        }
    }
}

#[cfg(feature = "cluster")]
fn told(error: dither_ballista::ProcessError) -> anyhow::Error {
    Told { code: error.code(), message: error.to_string(), hint: error.hint().into() }.into()
}

/// This build has no processes of a cluster.
#[cfg(not(feature = "cluster"))]
pub async fn run(_: &ClusterCommand) -> anyhow::Result<()> {
    absent()
}

/// What to do about a build without them.
#[cfg(not(feature = "cluster"))]
pub fn absent<T>() -> anyhow::Result<T> {
    let hint = "build one that does: cargo install --path crates/dither-cli --features cluster --locked";
    Err(Told { code: "no-cluster", message: "this build knows no Ballista cluster".into(), hint: hint.into() }.into())
}
