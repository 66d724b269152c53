//! The uid of an object, without an allocation of its own.

use std::fmt;
use std::ops::Deref;

/// `metadata.uid`. The usual 36 letters are held in place; a longer text is boxed.
#[derive(Clone)]
pub struct Uid(Text);

#[derive(Clone)]
enum Text {
    Short { length: u8, letters: [u8; SHORT] },
    Long(Box<str>),
}

const SHORT: usize = 36;

impl Uid {
    /// Bytes held on the heap.
    pub fn heap(&self) -> usize {
        match &self.0 {
            Text::Short { .. } => 0,
            Text::Long(text) => text.len(),
        }
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let mut letters = [0; SHORT];
        let fits = letters.get_mut(..text.len());
        let Some(place) = fits else { return Self(Text::Long(text.into())) };
        place.copy_from_slice(text.as_bytes());
        let length = u8::try_from(text.len()).expect("at most SHORT, as it fitted");
        Self(Text::Short { length, letters })
    }
}

impl Deref for Uid {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Short { length, letters } => {
                let used = &letters[..usize::from(*length)];
                std::str::from_utf8(used).expect("it was copied from a whole string")
            }
            Text::Long(text) => text,
        }
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::from("")
    }
}

impl PartialEq for Uid {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Uid {}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_comes_back_as_it_was() {
        for text in
            ["", "u", "0f3c8a52-6c1e-4d7b-9a41-5be0c2d7e913", &"ü".repeat(18), &"x".repeat(37)]
        {
            let uid = Uid::from(text);
            assert_eq!(&*uid, text);
            assert_eq!(uid.to_string(), text);
            assert_eq!(uid.heap(), if text.len() > SHORT { text.len() } else { 0 });
        }
    }
}
