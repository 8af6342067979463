//! Percent encoding of queries and form bodies.

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok())
}

/// Decodes one name or value; `None` when an escape or the text behind it is broken.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => bytes.push(hex(rest.next()?)? << 4 | hex(rest.next()?)?),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes everything but the unreserved characters of RFC 3986, as signatures need it.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
