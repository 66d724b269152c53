//! A number of bytes as people write it.

use flagship_base::quantity::Quantity;

/// Reads `128Mi`, `1G` or a plain number.
pub fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("{text:?} is not a number of bytes, such as 128Mi");
    let quantity = Quantity::bounded(text).map_err(|_| wrong())?;
    usize::try_from(quantity.to_whole()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_quantities() {
        for (text, read) in
            [("128Mi", Some(128 << 20)), ("1000", Some(1000)), ("2G", Some(2_000_000_000))]
        {
            assert_eq!(bytes(text).ok(), read, "{text}");
        }
        for wrong in ["", "much", "-1Mi"] {
            let told = bytes(wrong).unwrap_err();
            assert!(told.ends_with("is not a number of bytes, such as 128Mi"), "{told}");
        }
    }
}
