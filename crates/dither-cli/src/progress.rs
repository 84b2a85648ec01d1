//! A progress bar for whatever takes longer than a second. On standard error, and only on a terminal.

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dither::Progress;
use indicatif::{ProgressBar, ProgressStyle};

const STYLE: &str = "{spinner} {msg} {wide_bar} {bytes}/{total_bytes}";

/// Runs the work and shows how far the reading has come.
pub async fn shown<T>(progress: Arc<Progress>, work: impl Future<Output = T>) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let ticker = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        let clear = Clear(bar);
        loop {
            clear.0.set_length(progress.total_bytes.load(Ordering::Relaxed));
            clear.0.set_position(progress.bytes_read.load(Ordering::Relaxed));
            clear.0.set_message(format!("{} rows", progress.rows.load(Ordering::Relaxed)));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        done = work => done,
        never = ticker => never,
    }
}

/// Takes the bar away when the work is done.
struct Clear(ProgressBar);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
