//! Whether a scheduler is there and can work, asked before anything is charged. Nothing it says is shown but numbers.

use std::io;
use std::time::Duration;

use ballista_core::BALLISTA_VERSION;
use dither_query::source::SourceError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a scheduler may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// More than any answer of a scheduler has.
const LONGEST: u64 = 1 << 16;

/// Asks a scheduler whether it is of our version and has executors.
pub(crate) async fn check(authority: &str) -> Result<(), SourceError> {
    let answer = match timeout(PATIENCE, ask(authority)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(unusable(format!("it cannot be reached: {}", error.kind()), REACH)),
        Err(_) => return Err(unusable("it does not answer in time".into(), REACH)),
    };
    let (ready, version) = read(&answer).ok_or_else(|| unusable("it is no scheduler of Ballista".into(), REACH))?;
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(&version) != major(BALLISTA_VERSION) {
        let hint = "run the scheduler and the executors of this build: dither cluster";
        return Err(unusable(format!("it is Ballista {version}, and this is for {BALLISTA_VERSION}"), hint));
    }
    match ready {
        true => Ok(()),
        false => {
            Err(unusable("it has no executor".into(), "start some: dither cluster executor --scheduler HOST:PORT"))
        }
    }
}

const REACH: &str = "check that `dither cluster scheduler` runs, and host and port in the URL";

fn unusable(problem: String, hint: &str) -> SourceError {
    SourceError::Server { problem, hint: hint.into() }
}

/// The probe of readiness that every scheduler answers on its port.
async fn ask(authority: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(authority).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Whether there are executors, and the version: of nothing but digits and dots, since it is shown.
fn read(answer: &[u8]) -> Option<(bool, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, _) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let ready = match lines.next()?.split(' ').nth(1)? {
        "200" => true,
        "503" => false,
        _ => return None,
    };
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let version = value.trim().strip_prefix("ballista/")?;
        let plain = version.len() < 20 && version.chars().all(|c| c.is_ascii_digit() || c == '.');
        (name.eq_ignore_ascii_case("server") && plain).then(|| version.to_owned())
    };
    Some((ready, lines.find_map(named)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_odd_ones_are_none() {
        let answer = |status: &str, server: &str| {
            read(format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nServer: {server}\r\n\r\nok").as_bytes())
        };
        assert_eq!(answer("200 OK", "ballista/55.0.0"), Some((true, "55.0.0".into())));
        assert_eq!(answer("503 Service Unavailable", "ballista/55.1.0"), Some((false, "55.1.0".into())));
        for (status, server) in [("404 Not Found", "ballista/55.0.0"), ("200 OK", "nginx"), ("200 OK", "ballista/<b>")]
        {
            assert_eq!(answer(status, server), None, "{status} {server}");
        }
        assert_eq!(read(b"SSH-2.0-x\r\n"), None);
        assert_eq!(read(&[0xff; 9]), None);
    }
}
