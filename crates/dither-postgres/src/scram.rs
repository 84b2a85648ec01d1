//! Proving to know a password without sending it: SCRAM-SHA-256, as PostgreSQL asks for it.
//!
//! # References
//! RFC 5802, section 3; RFC 7677 for SHA-256; RFC 2104 for HMAC; RFC 8018, section 5.2, for PBKDF2.

use sha2::{Digest, Sha256};

use crate::wire::WireError;

type Hash = [u8; 32];

/// The most rounds of hashing that a server may ask for: 1,000 times PostgreSQL's default. More would be a way to stop us.
const MAX_ROUNDS: u32 = 4_096_000;

/// One exchange.
pub(crate) struct Scram {
    password: Vec<u8>,
    nonce: String,
    server_signature: Option<Hash>,
}

impl Scram {
    /// An exchange with a nonce of its own.
    pub(crate) fn new(password: &str) -> Result<Self, WireError> {
        let mut random = [0; 18];
        getrandom::fill(&mut random).map_err(|_| WireError::Protocol("no randomness for the password"))?;
        Ok(Self::with_nonce(password, encode(&random)))
    }

    fn with_nonce(password: &str, nonce: String) -> Self {
        Self { password: password.as_bytes().to_vec(), nonce, server_signature: None }
    }

    /// The first message. PostgreSQL takes the user from the start of the connection.
    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.first_bare(""))
    }

    fn first_bare(&self, user: &str) -> String {
        format!("n={user},r={}", self.nonce)
    }

    /// The answer to the server's challenge.
    pub(crate) fn last(&mut self, challenge: &str) -> Result<String, WireError> {
        self.answer("", challenge)
    }

    fn answer(&mut self, user: &str, challenge: &str) -> Result<String, WireError> {
        let odd = || WireError::Protocol("the server's challenge is none");
        let part = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)).ok_or_else(odd);
        let (nonce, salt) = (part("r=")?, decode(part("s=")?).ok_or_else(odd)?);
        let rounds: u32 = part("i=")?.parse().map_err(|_| odd())?;
        if !nonce.starts_with(&self.nonce) || nonce == self.nonce || !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(odd());
        }
        let salted = stretch(&self.password, &salt, rounds);
        let client_key = hmac(&salted, b"Client Key");
        let bare = format!("c=biws,r={nonce}");
        let message = format!("{},{challenge},{bare}", self.first_bare(user));
        let signature = hmac(&Sha256::digest(client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        self.server_signature = Some(hmac(&hmac(&salted, b"Server Key"), message.as_bytes()));
        Ok(format!("{bare},p={}", encode(&proof)))
    }

    /// Checks that the server knows the password as well.
    pub(crate) fn verify(&self, last: &str) -> Result<(), WireError> {
        let signature = last.split(',').find_map(|part| part.strip_prefix("v=")).and_then(decode);
        match (&self.server_signature, signature) {
            (Some(expected), Some(found)) if found == expected => Ok(()),
            _ => Err(WireError::Protocol("the server does not know the password")),
        }
    }
}

fn hmac(key: &[u8], message: &[u8]) -> Hash {
    let mut block = [0; 64];
    match key.len() {
        0..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let pad = |byte: u8| block.map(|key| key ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

/// PBKDF2 for one block.
fn stretch(password: &[u8], salt: &[u8], rounds: u32) -> Hash {
    let mut last = hmac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut all = last;
    for _ in 1..rounds {
        last = hmac(password, &last);
        all.iter_mut().zip(last).for_each(|(all, last)| *all ^= last);
    }
    all
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { letter.into() } else { '=' });
        }
    }
    text
}

/// Base64 back to bytes; `None` for what is none.
fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - letters.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in letters.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)? as u32;
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_standard() {
        let mut scram = Scram::with_nonce("pencil", "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(scram.first_bare("user"), "n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let answer = scram.answer("user", challenge).unwrap();
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(answer, expected);
        scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95H4=").is_err());
    }

    #[test]
    fn a_challenge_that_is_none_is_refused() {
        for odd in ["", "r=abc,s=AAAA,i=1", "r=other,s=AAAA,i=1", "r=abcd,s=A,i=1", "r=abcd,s=AAAA,i=0", "e=x"] {
            assert!(Scram::with_nonce("p", "abc".into()).last(odd).is_err(), "{odd}");
        }
        assert!(Scram::with_nonce("p", "abc".into()).last("r=abcd,s=AAAA,i=99999999").is_err());
    }

    #[test]
    fn base64_goes_both_ways() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xff\xfe", "//4=")]
        {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).unwrap(), bytes);
        }
        for odd in ["Z", "Zg=", "Z===", "Zg==Zg==", "Zé=="] {
            assert_eq!(decode(odd), None, "{odd}");
        }
    }
}
