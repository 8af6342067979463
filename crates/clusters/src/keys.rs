//! Public keys of ssh, as they stand in a file of authorized keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The key without its comment; none when the text is no public key of OpenSSH.
///
/// The second word repeats the first in its own encoding, which tells a key from a text that looks like one.
#[must_use]
pub fn without_comment(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (kind, body) = (words.next()?, words.next()?);
    let bytes = STANDARD.decode(body).ok()?;
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let named = rest.get(..length)?;
    let has_key = rest.len() > length;
    (named == kind.as_bytes() && has_key).then(|| format!("{kind} {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi";

    #[test]
    fn a_key_loses_its_comment_and_nothing_else() {
        assert_eq!(without_comment(KEY).as_deref(), Some(KEY));
        assert_eq!(without_comment(&format!("  {KEY}\tme@host and more\n")).as_deref(), Some(KEY));
    }

    #[test]
    fn what_only_looks_like_a_key_is_none() {
        let other = KEY.replace("ssh-ed25519 ", "ssh-rsa ");
        for bad in ["", "ssh-rsa", "ssh-rsa AAAA", "ssh-rsa !!!!", "-----BEGIN OPENSSH PRIVATE KEY-----", &other] {
            assert_eq!(without_comment(bad), None, "{bad}");
        }
    }
}
