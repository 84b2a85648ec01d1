//! Which cluster: the URL of its scheduler.

use std::net::IpAddr;

/// The port of a scheduler, where the URL names none.
const PORT: u16 = 50050;

/// How many parts a question is cut into, where the URL does not say.
const PARTITIONS: usize = 16;

/// What is wrong with a scheduler on another machine.
const OPEN: &str = "names another machine, and what is sent is neither encrypted nor authenticated";

/// A scheduler, and into how many parts work is cut for its executors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Host and port, as they stand in a URL.
    pub(crate) authority: String,
    pub(crate) partitions: usize,
}

/// Why a URL names no cluster that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL of the cluster {problem}")]
pub struct UrlError {
    problem: &'static str,
}

impl UrlError {
    /// What to write instead.
    pub fn hint(&self) -> &'static str {
        match self.problem {
            OPEN => "use a tunnel to it, or say ballista://HOST:50050?network=trusted where nobody else can listen",
            _ => "write ballista://127.0.0.1:50050",
        }
    }

    /// The engine here that would plan for the cluster cannot be set up.
    pub(crate) fn no_session() -> Self {
        Self { problem: "cannot be used: the engine of this process cannot be set up" }
    }
}

impl Place {
    /// Reads `ballista://host:port`, with `?partitions=64` for more parts and `?network=trusted` for another machine.
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let odd = |problem| UrlError { problem };
        let rest = url.strip_prefix("ballista://").ok_or(odd("does not begin with ballista://"))?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = host_and_port(authority.trim_end_matches('/')).ok_or(odd("has no host, or an odd port"))?;
        let (mut partitions, mut trusted) = (PARTITIONS, false);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("network", "trusted")) => trusted = true,
                Some(("partitions", number)) => {
                    let number = number.parse().ok().filter(|number| (1..=4096).contains(number));
                    partitions = number.ok_or(odd("has a number of partitions that is not from 1 to 4096"))?;
                }
                _ => return Err(odd("has a parameter that is not offered")),
            }
        }
        if !trusted && !is_here(host) {
            return Err(odd(OPEN));
        }
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Ok(Self { authority: format!("{host}:{port}"), partitions })
    }
}

/// Whether a host is this machine.
pub(crate) fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A host, without the brackets of IPv6, and a port. A host is a name or an address, and nothing that a URL could take for
/// something else.
pub(crate) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':')))?,
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let named = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let valid = !host.is_empty() && (named || host.parse::<IpAddr>().is_ok());
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0))?;
    valid.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let place = |authority: &str, partitions| Ok(Place { authority: authority.into(), partitions });
        assert_eq!(Place::parse("ballista://localhost"), place("localhost:50050", 16));
        assert_eq!(Place::parse("ballista://127.0.0.1:7/"), place("127.0.0.1:7", 16));
        assert_eq!(Place::parse("ballista://[::1]:7?partitions=64"), place("[::1]:7", 64));
        assert_eq!(Place::parse("ballista://node-1.lan:9?network=trusted"), place("node-1.lan:9", 16));
    }

    #[test]
    fn what_is_no_url_of_a_cluster_is_refused() {
        for url in [
            "df://localhost:50050",
            "ballista://",
            "ballista://:50050",
            "ballista://localhost:0",
            "ballista://localhost:99999",
            "ballista://user@localhost",
            "ballista://local host",
            "ballista://localhost/path",
            "ballista://localhost?partitions=0",
            "ballista://localhost?tls=on",
            "ballista://node-1.lan",
            "ballista://192.0.2.1:50050",
        ] {
            assert!(Place::parse(url).is_err(), "{url}");
        }
        assert!(Place::parse("ballista://node-1.lan").unwrap_err().hint().contains("?network=trusted"));
    }
}
