//! The little of PostgreSQL's protocol that is needed: log in, run one statement, take its rows as texts.
//!
//! A client of our own, since those at hand would change the features of crates beneath the engine. Nothing that the
//! server says is shown or kept: of an error only its code, which holds no values.
//!
//! # References
//! PostgreSQL documentation, chapter 55, "Frontend/Backend Protocol", version 3.0.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

use crate::scram::Scram;
use crate::server::{Address, Server};

/// How long a server may take to let us in. Nothing that it does until then depends on rows.
const PATIENCE: Duration = Duration::from_secs(20);
/// The largest message that is taken: a row of an answer is far smaller.
const MAX_MESSAGE: usize = 1 << 28;

/// Why a statement has no rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the connection to PostgreSQL failed")]
    Io(#[from] io::Error),
    #[error("PostgreSQL and this program do not understand each other: {0}")]
    Protocol(&'static str),
    #[error("PostgreSQL refused with SQLSTATE {0}")]
    Refused(String),
    #[error("PostgreSQL asks for a way to log in that is not offered; use scram-sha-256, peer or trust")]
    Login,
    #[error("PostgreSQL asks for a password")]
    NoPassword,
}

/// A row of a statement, each cell a text.
pub(crate) type Row = Vec<Option<String>>;
/// The rows of a statement.
pub(crate) type Rows = Vec<Row>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is logged in.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    /// Logs in.
    pub(crate) async fn open(server: &Server) -> Result<Self, WireError> {
        let late = |_| WireError::Io(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(PATIENCE, Self::log_in(server)).await.map_err(late)?
    }

    async fn log_in(server: &Server) -> Result<Self, WireError> {
        let stream: Box<dyn Stream> = match &server.address {
            Address::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Address::Host(host, port) => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
        };
        let mut connection = Self { stream: BufReader::new(stream) };
        let mut start = 196_608_i32.to_be_bytes().to_vec();
        let who = [("user", server.user.as_str()), ("database", &server.database)];
        for (name, value) in who.into_iter().chain([("client_encoding", "UTF8"), ("application_name", "dither")]) {
            start.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        start.push(0);
        connection.send(&message(None, &start)).await?;
        let mut scram = None;
        loop {
            let (kind, body) = connection.receive().await?;
            let mut body = Reader(&body);
            match (kind, if kind == b'R' { body.i32()? } else { 0 }) {
                (b'R', 0) | (b'S' | b'K' | b'N', _) => {}
                (b'R', 10) if body.0.windows(14).any(|name| name == b"SCRAM-SHA-256\0") => {
                    let scram = scram.insert(Scram::new(server.password.as_deref().ok_or(WireError::NoPassword)?)?);
                    let first = scram.first();
                    let length = i32::try_from(first.len()).map_err(|_| WireError::Login)?.to_be_bytes();
                    let reply = [b"SCRAM-SHA-256\0".as_slice(), &length, first.as_bytes()].concat();
                    connection.send(&message(Some(b'p'), &reply)).await?;
                }
                (b'R', 11) => {
                    let last = scram.as_mut().ok_or(WireError::Login)?.last(body.rest()?)?;
                    connection.send(&message(Some(b'p'), last.as_bytes())).await?;
                }
                (b'R', 12) => scram.as_ref().ok_or(WireError::Login)?.verify(body.rest()?)?,
                (b'R', _) => return Err(WireError::Login),
                (b'E', _) => return Err(refused(&mut body)),
                (b'Z', _) => return Ok(connection),
                _ => return Err(WireError::Protocol("an unknown message")),
            }
        }
    }

    /// Runs one statement with texts for its parameters. They travel beside it, not in it.
    pub(crate) async fn run(&mut self, sql: &str, parameters: &[&str]) -> Result<Rows, WireError> {
        if sql.contains('\0') {
            return Err(WireError::Protocol("a statement with a zero"));
        }
        let too_long = |_| WireError::Protocol("a statement that is too long");
        let parse = [b"\0", sql.as_bytes(), b"\0", &[0, 0]].concat();
        let mut bind = vec![0, 0, 0, 0];
        bind.extend(i16::try_from(parameters.len()).map_err(too_long)?.to_be_bytes());
        for parameter in parameters {
            bind.extend(i32::try_from(parameter.len()).map_err(too_long)?.to_be_bytes());
            bind.extend(parameter.as_bytes());
        }
        bind.extend([0, 0]);
        self.exchange(&[(b'P', parse), (b'B', bind), (b'E', vec![0, 0, 0, 0, 0]), (b'S', Vec::new())]).await
    }

    /// Lets the server look at a statement, its names and types, without planning or running it.
    pub(crate) async fn check(&mut self, sql: &str) -> Result<(), WireError> {
        let parse = [b"\0", sql.as_bytes(), b"\0", &[0, 0]].concat();
        self.exchange(&[(b'P', parse), (b'S', Vec::new())]).await.map(drop)
    }

    /// Says goodbye, so that the server does not log a lost connection.
    pub(crate) async fn close(mut self) {
        // What was wanted is there already.
        let _ = self.send(&message(Some(b'X'), &[])).await;
    }

    async fn exchange(&mut self, messages: &[(u8, Vec<u8>)]) -> Result<Rows, WireError> {
        let messages: Vec<u8> = messages.iter().flat_map(|(kind, body)| message(Some(*kind), body)).collect();
        self.send(&messages).await?;
        let (mut rows, mut failure) = (Rows::new(), None);
        loop {
            let (kind, body) = match self.receive().await {
                Ok(message) => message,
                // A server that stops says why before it is gone.
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            let mut body = Reader(&body);
            match kind {
                b'D' => rows.push(row(&mut body)?),
                b'E' => failure = failure.or(Some(refused(&mut body))),
                b'Z' => return failure.map_or(Ok(rows), Err),
                b'1' | b'2' | b'C' | b'I' | b'N' | b'S' | b'A' => {}
                _ => return Err(WireError::Protocol("an unknown message")),
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    async fn receive(&mut self) -> Result<(u8, Vec<u8>), WireError> {
        let kind = self.stream.read_u8().await?;
        let length = usize::try_from(self.stream.read_i32().await?).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|length| *length <= MAX_MESSAGE);
        let mut body = vec![0; length.ok_or(WireError::Protocol("a message without an end"))?];
        self.stream.read_exact(&mut body).await?;
        Ok((kind, body))
    }
}

/// A message: its kind, its length, and what it says.
fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
    kind.into_iter().chain(length).chain(body.iter().copied()).collect()
}

fn row(body: &mut Reader<'_>) -> Result<Row, WireError> {
    let cells = body.i16()?;
    (0..cells)
        .map(|_| match usize::try_from(body.i32()?) {
            Ok(length) => Ok(Some(text(body.take(length)?)?.to_owned())),
            Err(_) => Ok(None),
        })
        .collect()
}

/// The code of an error. What else the server says may quote a row.
fn refused(body: &mut Reader<'_>) -> WireError {
    let state = body.0.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"));
    let plain = |state: &&[u8]| state.len() == 5 && state.iter().all(u8::is_ascii_alphanumeric);
    let state = state.filter(plain).and_then(|state| std::str::from_utf8(state).ok());
    WireError::Refused(state.unwrap_or("unknown").to_owned())
}

fn text(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::Protocol("a text that is not UTF-8"))
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Protocol("a message that breaks off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn i16(&mut self) -> Result<i16, WireError> {
        self.take(2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        self.take(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn rest(&mut self) -> Result<&'a str, WireError> {
        text(std::mem::take(&mut self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_length() {
        assert_eq!(message(Some(b'S'), b""), [b'S', 0, 0, 0, 4]);
        assert_eq!(message(None, b"ab"), [0, 0, 0, 6, b'a', b'b']);
    }

    #[test]
    fn broken_rows_are_errors() {
        let good = [0, 2, 255, 255, 255, 255, 0, 0, 0, 1, b'x'];
        assert_eq!(row(&mut Reader(&good)).unwrap(), [None, Some("x".to_owned())]);
        for length in 0..good.len() {
            assert!(row(&mut Reader(&good[..length])).is_err());
        }
        assert!(row(&mut Reader(&[0, 1, 0, 0, 0, 1, 0xff])).is_err());
    }

    #[test]
    fn tm_of_an_error_only_its_code_is_kept() {
        let body = b"SERROR\0C22003\0Mvalue \"4711\" is out of range\0Dkey (patient)=(bob)\0\0";
        assert_eq!(refused(&mut Reader(body)).to_string(), "PostgreSQL refused with SQLSTATE 22003");
        assert_eq!(refused(&mut Reader(b"C<b>x</\0\0")).to_string(), "PostgreSQL refused with SQLSTATE unknown");
    }
}
