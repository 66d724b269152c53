//! Protobuf's wire format: numbered fields of four shapes.

/// Bytes that are not protobuf, or not of the kind they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message in order.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field and its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?)
                    .map_err(|_| Malformed("a field is longer than the message"))?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed("a field has no known shape")),
        };
        Ok(Some((tag >> 3, wire)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("a number is too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed("a field is longer than the message"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("a field is longer than the message"))
    }
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed("a number stands where text or a message should")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    #[expect(
        clippy::cast_possible_wrap,
        reason = "negative numbers travel as their two's complement"
    )]
    pub(super) fn int(self) -> Result<i64, Malformed> {
        match self {
            Self::Varint(bits) | Self::Fixed64(bits) => Ok(bits as i64),
            Self::Fixed32(bits) => Ok(i64::from(bits)),
            Self::Bytes(_) => Err(Malformed("text stands where a number should")),
        }
    }

    pub(super) fn double(self) -> Result<f64, Malformed> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed("a fraction has the wrong shape")),
        }
    }
}
