//! Somebody between two programs, who sees what one of them asks and changes what the other answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

/// Passes connections on to a port of this machine, and gives the port where it listens for them, until the process ends.
/// `asked` sees each piece on its way there, and `answered` may change each on its way back.
///
/// # Panics
/// Where no port is left.
pub fn between(
    port: u16,
    asked: impl Fn(&[u8]) + Send + Sync + 'static,
    answered: impl Fn(&mut [u8]) + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap_or_else(|error| panic!("{error}"));
    let own = listener.local_addr().map_or(0, |address| address.port());
    let (asked, answered) = (Arc::new(asked), Arc::new(answered));
    std::thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let Ok(there) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (Ok(from_here), Ok(from_there)) = (here.try_clone(), there.try_clone()) else { continue };
            let (asked, answered) = (Arc::clone(&asked), Arc::clone(&answered));
            std::thread::spawn(move || pass(from_here, there, |piece| asked(piece)));
            std::thread::spawn(move || pass(from_there, here, |piece| answered(piece)));
        }
    });
    own
}

/// Puts bytes in the place of others of the same length, wherever these stand.
///
/// # Panics
/// Bytes of another length.
pub fn replace(piece: &mut [u8], old: &[u8], new: &[u8]) {
    for start in 0..piece.len().saturating_sub(old.len() - 1) {
        if piece[start..].starts_with(old) {
            piece[start..start + old.len()].copy_from_slice(new);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, see: impl Fn(&mut [u8])) {
    let _ = to.set_nodelay(true);
    let mut piece = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        see(&mut piece[..length]);
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
