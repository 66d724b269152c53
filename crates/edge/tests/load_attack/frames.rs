//! HTTP/2 frames by hand, for what no decent client would send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What a client greets with: the preface, and settings that change nothing.
pub fn greeting() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;

/// The error that says "enough".
pub const ENHANCE_YOUR_CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The head of a GET: three names of the static table, and a path of its own.
pub fn get_head(path: &str) -> Vec<u8> {
    // :method GET, :scheme https, :authority x, and then :path.
    let mut head = vec![0x82, 0x87, 0x01, 1, b'x', 0x04, u8::try_from(path.len()).unwrap()];
    head.extend_from_slice(path.as_bytes());
    head
}

/// A request that is taken back at once.
pub fn taken_back(stream: u32, head: &[u8]) -> Vec<u8> {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    [frame(HEADERS, END_STREAM | END_HEADERS, stream, head), frame(RST_STREAM, 0, stream, &CANCEL)]
        .concat()
}

/// A request that the server has to take back, for what follows its head is wrong: a window
/// larger than there may be.
pub fn broken(stream: u32, head: &[u8]) -> Vec<u8> {
    let begun = frame(HEADERS, END_STREAM | END_HEADERS, stream, head);
    [begun, frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])].concat()
}

/// Reads frames until one of this kind; `None` when the connection ends before.
pub async fn wait_for(stream: &mut TlsStream<TcpStream>, wanted: u8) -> Option<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.ok()?;
        let (kind, flags) = (head[3], head[4]);
        if kind == wanted && (kind != PING || flags & ACK == ACK) {
            return Some(payload);
        }
    }
}

/// The error that a server says farewell with; `None` when it hung up without a word.
pub async fn farewell(stream: &mut TlsStream<TcpStream>) -> Option<u32> {
    let payload = wait_for(stream, GOAWAY).await?;
    Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()))
}

/// Sends bytes, as far as the server still takes any.
pub async fn send(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) {
    stream.write_all(bytes).await.ok();
    stream.flush().await.ok();
}
