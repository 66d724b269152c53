//! Compressed request bodies, inflated no further than a plain body may be long.

use std::io::Read;

use flagship_base::machinery::status::ApiError;
use flate2::read::GzDecoder;

use flagship_apiserver::rest::MAX_BODY;

/// The plain bytes of a compressed body; 413 when there are too many.
pub(super) fn inflate(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    let mut plain = Vec::new();
    let limit = u64::try_from(MAX_BODY).unwrap_or(u64::MAX);
    match GzDecoder::new(bytes).take(limit + 1).read_to_end(&mut plain) {
        Ok(_) if plain.len() > MAX_BODY => Err(ApiError::too_large(MAX_BODY)),
        Ok(_) => Ok(plain),
        Err(why) => Err(ApiError::bad_request(format!("cannot inflate the request body: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn deflated(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_inflated() {
        assert_eq!(inflate(&deflated(b"{}")).unwrap(), b"{}");
        assert_eq!(inflate(b"{}").map_err(|e| e.code), Err(400));
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let bomb = deflated(&vec![b' '; MAX_BODY * 20]);
        assert!(bomb.len() < MAX_BODY / 10);
        assert_eq!(inflate(&bomb).map_err(|e| e.code), Err(413));
        assert_eq!(
            inflate(&deflated(&vec![b' '; MAX_BODY])).map(|plain| plain.len()),
            Ok(MAX_BODY)
        );
    }
}
